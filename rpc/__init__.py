"""JSON-RPC calls through a relayer, fee estimates, and the tokens that fees are quoted in. No app uses this one."""
