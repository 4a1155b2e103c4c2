"""Sending transactions: they are accepted, signed, broadcast, watched and settled.

- `requests/`: a request becomes a row, without a call to a node or signer.
- `lanes/`: a lane is the nonce sequence of one account on one chain. Its worker plans, signs, commits and broadcasts.
- `settlement/`: what the chain reports becomes the status of rows; nonces used elsewhere, reorgs, lost commits.
- `limits/`: what rows have reserved of spending limits. `top_ups/`: relayers that others fund.
- `repair/`: what staff do to lanes. `records/`: rows, their statuses and reasons. `console/`: pages of the admin.

`models/` has the invariants, docs/architecture.md the order of steps and what a crash after each leaves behind.
"""
