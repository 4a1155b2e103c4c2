"""Transactions: legacy and types 1 to 4, signed or not."""

from chain.transactions.decoding import decode
from chain.transactions.encoding import encode_with_placeholders
from chain.transactions.model import NotATransaction, Prices, Transaction

__all__ = ["NotATransaction", "Prices", "Transaction", "decode", "encode_with_placeholders"]
