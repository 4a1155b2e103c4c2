"""When a relayer is topped up, and by how much: pure functions of rows and readings."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from chain.networks import Network
from chain.units import coins
from relayers.models.top_ups import TopUpAmounts
from transactions.models import FINAL, Lane, Status, TopUp, Transaction
from transactions.settlement.removable import WATCHED_TIME

DAY = timedelta(days=1)
# A balance that was read longer ago decides nothing.
MAX_AGE_SECONDS = 30
# Until a blocked top-up is tried again.
BLOCKED_SECONDS = 60
# After a failure; it doubles with each further one, up to the maximum.
FIRST_BACKOFF, MAX_BACKOFF = timedelta(minutes=1), timedelta(hours=6)
UNFUNDED = (
    "The funding relayer {} cannot pay: {} missing. The top-up can cost {}, and its balance is {}, of which {} is "
    "kept for its other transactions and {} as its reserve."
)


@dataclass(frozen=True)
class BalanceReading:
    """The balance of an account in the state of a block."""

    address: str
    balance: int
    block: int
    read_at: float = field(default_factory=time.monotonic)

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self.read_at <= MAX_AGE_SECONDS


def missing(amounts: TopUpAmounts, balance: int) -> int:
    """Return how much the account gets; 0 if it has enough."""
    return amounts.target - balance if balance < amounts.minimum else 0


def settled_block(top_up: TopUp, row: Transaction, lane: Lane, now: datetime) -> int | None:
    """Return a block after which a top-up changes no balance any more; None while it still can.

    A final status is not enough: a reorg deeper than `confirmations` can remove the transaction, and its bytes are
    broadcast again. Its nonce must also be final.
    """
    if row.status not in FINAL:
        return None
    if is_of_former_chain(row, lane):
        return 0
    is_settled = row.nonce is None or (lane.final_nonce is not None and row.nonce < lane.final_nonce)
    # Nodes may never report a final count: then it is watched for a limited time.
    if not is_settled and (row.finished_at is None or now - row.finished_at < WATCHED_TIME):
        return None
    head = lane.watch.head_number if lane.watch else None
    if head is not None:
        # None of the other blocks exists that is above it.
        return head
    return max(each for each in (top_up.block, row.block_number, lane.final_block) if each is not None)


def is_of_former_chain(row: Transaction, lane: Lane) -> bool:
    """Return whether a final transaction was sent on a chain that was replaced: the numbers of blocks start over."""
    return row.nonce is not None and row.epoch != lane.epoch


def supersedes(reading: BalanceReading, last: TopUp | None) -> bool:
    """Return whether a reading shows the effect of the last top-up that was sent."""
    if last is None or last.transaction is None:
        return True
    if last.final_block is not None and is_of_former_chain(last.transaction, last.transaction.lane):
        return True
    return last.final_block is not None and reading.block > last.final_block


def failure(row: Transaction, address: str, amount: int, network: Network | None) -> str:
    """Return why a final transaction did not top up an account; "" if it did. One that was replaced may not."""
    if row.status != Status.CONFIRMED:
        return f"It is {row.status}. {row.status_reason}"
    if row.to.lower() != address.lower() or row.value < amount:
        return f"Its transaction was replaced: {coins(row.value, network)} went to {row.to or 'a new contract'}."
    return ""


def backoff(failures: int) -> timedelta:
    """Return the time until the next attempt after so many failures in a row."""
    return min(FIRST_BACKOFF * 2.0 ** min(failures - 1, 20), MAX_BACKOFF)


def limit_fault(amounts: TopUpAmounts, amount: int, sent: Sequence[int], network: Network | None) -> str:
    """Return why the daily limit does not allow an amount after the amounts of the last 24 hours; "" if it does."""
    left = max(0, amounts.daily_limit - sum(sent))
    if amount <= left:
        return ""
    needed, limit, rest = (coins(each, network) for each in (amount, amounts.daily_limit, left))
    return f"{needed} are missing, and the daily limit of {limit} leaves {rest} of what can be sent in 24 hours."


def funds_fault(name: str, cost: int, balance: int, needed: int, reserve: int, network: Network | None) -> str:
    """Return why a funding relayer cannot pay beyond what its transactions need; "" if it can."""
    missing_funds = cost + needed + reserve - balance
    if missing_funds <= 0:
        return ""
    return UNFUNDED.format(name, *(coins(each, network) for each in (missing_funds, cost, balance, needed, reserve)))
