"""Relayers: accounts on networks, with their nodes, policies, states and health checks.

Other apps may use `models`, `policies`, `formatting` and `filters`.
"""
