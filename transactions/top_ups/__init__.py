"""Automatic top-ups: a relayer whose balance falls below its minimum gets coins from its funding relayer.

`finding` finds the relayers and reads their balances, `quoting` what the transaction can cost, and `sending` decides
and writes. A top-up and its transaction are written in one database transaction, and the next one needs a balance of a
block in which the last one can no longer change: whatever is killed or runs twice, a shortage is topped up once.
"""
