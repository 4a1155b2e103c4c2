"""Calls to nodes: failover, circuit breakers, parsing, and what is believed of their answers."""
