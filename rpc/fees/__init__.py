"""Fees in tokens: the tokens, their prices and the quote."""
