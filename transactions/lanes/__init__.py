"""Lanes: planning, pricing, signing, committing and broadcasting the transactions of one account.

`engine` runs one coroutine per lane in a worker; `turn` is one round of its work, and `selecting` its choice of rows.
`prices` has the rules of planning and prices. `commits` writes what was signed, `outcomes` what nodes
answered.
"""
