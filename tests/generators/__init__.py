"""Clients generated from the OpenAPI documents: each is generated, compiled, and calls a running service.

`make generators` runs all and writes `results.md`; the suite runs two of them.
"""
