"""Access to chains through their nodes. A plain package and no Django app: it has no models and knows no relayer.

It imports only `relayer_service`, and raises its own errors (`errors.py`). Other packages may use:

- `networks`: the networks that are known, by name.
- `nodes`: make calls to the nodes of a relayer, with failover; ask each for its status or its chain.
  `attempts.Call` is a call, `answers` reads the answers.
- `readings`: read several things in one batch, from the cache where they are fresh.
- `transactions`: a transaction, decoded and encoded; `limits`: what a network takes of one.
- `native_fee`: the fee of a transaction in the network's coin, from what `readings` read.
- `probe`: ask the nodes of a network whether they fit what is known of it.
- `contracts`: calls of contracts, for readings of your own.

`attempts` (one HTTP request to one node) and `breakers` (when a node is paused) serve `nodes`; `head` (the last block)
serves `readings`. `gas_estimate`, `fee_history`, `gas_price` and `kinds/` (what networks charge besides gas) serve
`native_fee`.
"""
