"""Settlement: what the chain reports becomes the status of transactions.

`watching` reads the chain for many lanes at once; `judging` is a pure function. In `nonces`, `adoption` finds out who
used a nonce, and `holds` stops lanes whose nonces are in doubt and releases them.
"""
