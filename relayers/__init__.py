"""Relayers: accounts on networks, with their nodes, policies, states and health checks."""
