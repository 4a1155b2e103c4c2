"""Incoming requests, addresses, DNS and outgoing HTTP."""
