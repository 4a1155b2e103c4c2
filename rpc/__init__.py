"""JSON-RPC calls through a relayer, fee estimates, fee tokens and their prices. No other app imports this one."""
