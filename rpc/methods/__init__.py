"""The JSON-RPC methods, a file for each; `rpc/registry.py` lists them."""
