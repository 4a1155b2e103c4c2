"""Access to chains through their nodes. A plain package, not a Django app: it has no models and no notion of relayers.

It imports only `relayer_service`, and raises its own errors (`errors.py`).

- `networks`: the supported networks, by name; `limits`: their limits; `units`: amounts of their coins.
- `nodes/`: calls to a relayer's nodes with failover (`failover`), and what is believed of their answers.
- `readings`: several values in one batch, from the cache where they are fresh; `contracts`: contract calls for them.
- `transactions/`: decoding and encoding. `broadcast/`: `eth_sendRawTransaction`.
- `fees/`: the fee of a transaction in the network's coin (`native_fee`), from the values of `readings`.
- `network_check`: compares the nodes of a network with its settings.
"""
