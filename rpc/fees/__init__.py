"""The fee of a transaction in a token: tokens, prices and the estimate."""
