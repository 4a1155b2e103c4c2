"""Access to chains through their nodes. Imports nothing else of `relayers`, and raises its own errors (`errors.py`).

Other packages may use:

- `networks`: the networks that are known, by name.
- `nodes`: make calls to the nodes of a relayer, with failover; ask each for its status or its chain.
  `attempts.Call` is a call, `answers` reads the answers.
- `readings`: read several things in one batch, from the cache where they are fresh.
- `gas_estimate`, `gas_price` (base fee, priority fee), `l1` (fees of rollups), `contracts`: what there is to read.
- `transactions`: decode an encoded transaction.

`attempts` (one HTTP request to one node) and `breakers` (when a node is paused) serve `nodes`.
"""
