"""Sending transactions: they are accepted, signed, broadcast, watched and settled.

- `accepting`: a request becomes a row, without a call to a node or signer.
- `lanes/`: a lane is the nonce sequence of one account on one chain. Its worker plans, signs, commits and broadcasts.
- `settlement/`: what the chain reports becomes the status of rows; nonces used elsewhere, reorgs, lost commits.
- `spending/`: what rows count on spending limits. `topups/`: relayers that others fund.

`models/` has the invariants, docs/architecture.md the order of steps and what a crash after each leaves behind.
"""
