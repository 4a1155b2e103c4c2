"""Signers: keys, and references to keys that others hold.

Other apps may use `models`, `types`, `signing` and `backends.base`.
"""
