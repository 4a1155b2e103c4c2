"""The chain as nodes tell it. Knows nothing of JSON-RPC calls from outside: it raises errors of its own."""
