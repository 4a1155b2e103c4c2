"""The nonces of an account: who used them, and when none is assigned."""
