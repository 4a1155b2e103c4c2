"""Access to chains through their nodes. A plain package, not a Django app: it has no models and no notion of relayers.

It imports only `relayer_service`, and raises its own errors (`errors.py`). Entry points for other packages:

- `networks`: the supported networks, by name.
- `nodes`: calls to a relayer's nodes with failover; `attempts.Call` is a call, `answers` parses responses.
- `readings`: several values in one batch, from the cache where they are fresh; `contracts`: contract calls for them.
- `transactions`: decoding and encoding; `limits`: the limits of a network.
- `native_fee`: the fee of a transaction in the network's coin, from the values of `readings`.
- `probe`: compares the nodes of a network with its settings.

`attempts` (one HTTP request) and `breakers` (paused nodes) serve `nodes`, `head` (the last block) serves `readings`;
`gas_estimate`, `fee_history`, `gas_price` and `kinds` (the charges of rollups) serve `native_fee`.
"""
