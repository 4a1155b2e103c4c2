"""The models, where Django looks for them, their choices and the groups of these. Safety rests on their constraints.

Leases, clocks and tasks serve progress only: two workers that hold the same lane cannot both commit a nonce.
"""

from transactions.models.attempts import Attempt, amount_text
from transactions.models.charges import Charge
from transactions.models.lanes import AT_LEAST, IS_HALTED, NEEDS_FUNDS, ChainWatch, Hold, Lane, Waiting
from transactions.models.top_ups import TopUp
from transactions.models.transactions import (
    FINAL,
    HAS_OPEN_NONCE,
    IN_FLIGHT,
    IS_DISPUTED,
    IS_IN_FLIGHT,
    IS_IN_STATUS,
    IS_OPEN,
    IS_OVER_LIMIT,
    IS_PENDING,
    NOOP_PURPOSES,
    NOOPS,
    OPEN,
    UNCORROBORATED,
    UNSUCCESSFUL,
    MetadataPair,
    Status,
    StatusChange,
    Transaction,
)

__all__ = [
    "AT_LEAST", "FINAL", "HAS_OPEN_NONCE", "IN_FLIGHT", "IS_DISPUTED", "IS_HALTED", "IS_IN_FLIGHT", "IS_IN_STATUS",
    "IS_OPEN", "IS_OVER_LIMIT", "IS_PENDING", "NEEDS_FUNDS", "NOOPS", "NOOP_PURPOSES", "OPEN", "UNCORROBORATED",
    "UNSUCCESSFUL",
    "Attempt", "ChainWatch", "Charge", "Hold", "Lane", "MetadataPair", "Status", "StatusChange", "TopUp",
    "Transaction", "Waiting", "amount_text",
]  # fmt: skip
