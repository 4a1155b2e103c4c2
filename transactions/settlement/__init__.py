"""Settlement: what the chain reports becomes the status of transactions.

`watching` reads the chain for many lanes at once; `judging` is a pure function; `adoption` finds out who used
a nonce; `holds` stops lanes whose nonces are in doubt and releases them.
"""
