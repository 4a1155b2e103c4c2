"""Transactions: legacy and types 1 to 4, signed or not."""

from chain.transactions.decoding import decode
from chain.transactions.encoding import Draft, encode_with_placeholders, transaction_hash
from chain.transactions.model import NotATransaction, Prices, Transaction

__all__ = [
    "Draft",
    "NotATransaction",
    "Prices",
    "Transaction",
    "decode",
    "encode_with_placeholders",
    "transaction_hash",
]
