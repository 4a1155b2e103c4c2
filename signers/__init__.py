"""Signers: local keys, and references to keys held by providers."""
