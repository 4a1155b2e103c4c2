"""Judging rows by what a node reported: a pure function from rows and a view of the chain to verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chain.networks import Network
from transactions.models import FINAL, IN_FLIGHT, NOOP_PURPOSES, Attempt, Hold, Lane, Status, Transaction
from transactions.settlement.reading import ChainView, Counts, Receipt
from transactions.signed_payloads import is_superseded

# The status that a no-op ends in, by its purpose.
NOOP_STATUS: Mapping[str, Status] = {
    Attempt.Purpose.CANCEL: Status.CANCELED,
    Attempt.Purpose.EXPIRE: Status.EXPIRED,
    Attempt.Purpose.CLOSE: Status.FAILED,
    Attempt.Purpose.GAP: Status.CONFIRMED,
}
REVERTED = "The transaction was executed and reverted."
CANCELED_TOO_LATE = "The cancellation came too late."
REPLACED_TOO_LATE = "The replacement came too late: the transaction before it was mined."
REORGED = "A reorg removed its block. It is broadcast again."


@dataclass(frozen=True)
class Watched:
    """A row of the lane's epoch with a nonce, and its attempts at that nonce."""

    row: Transaction
    attempts: Sequence[Attempt]

    @property
    def nonce(self) -> int:
        assert self.row.nonce is not None
        return self.row.nonce

    @property
    def has_rivals(self) -> bool:
        """Whether its attempts have different payloads: the request, what replaced it, and a no-op instead of it."""
        # Versions of payloads begin at 1.
        return len({0 if each.purpose in NOOP_STATUS else each.payload_version for each in self.attempts}) > 1


@dataclass(frozen=True)
class Mined:
    row: Transaction
    attempt: Attempt
    receipt: Receipt


@dataclass(frozen=True)
class Reorged:
    row: Transaction


@dataclass(frozen=True)
class Finished:
    row: Transaction
    status: Status
    reason: str
    receipt: Receipt


@dataclass(frozen=True)
class Consumed:
    """The nonce was used in a final block, and none of the row's attempts has a receipt."""

    row: Transaction


@dataclass(frozen=True)
class Contradicted:
    row: Transaction
    details: str


Verdict = Mined | Reorged | Finished | Consumed | Contradicted


def blocks_to_check(watched: Sequence[Watched]) -> list[int]:
    """Return the numbers of the blocks whose hash decides about rows."""
    return sorted({each.row.block_number for each in watched if each.row.block_number is not None})


def receipts_to_read(lane: Lane, watched: Sequence[Watched], view: ChainView, network: Network) -> list[str]:
    """Return the hashes of attempts that may be in a block, and of those whose row may become final."""
    count = view.counts.get(lane.address, Counts()).latest or 0
    hashes = []
    for each in watched:
        if each.row.status in IN_FLIGHT and each.nonce < count:
            hashes += [attempt.hash for attempt in each.attempts]
        elif each.row.mined_attempt is not None and _needs_receipt(lane, each, view, network):
            hashes.append(each.row.mined_attempt.hash)
    return hashes


def _needs_receipt(lane: Lane, each: Watched, view: ChainView, network: Network) -> bool:
    """Return whether a row is about to become final, or the chain may contradict a final one."""
    if each.row.status in FINAL:
        return is_canonical(each.row, view) is False
    return is_canonical(each.row, view) is True and is_deep(lane, each, view, network)


def is_canonical(row: Transaction, view: ChainView) -> bool | None:
    """Return whether the row's block is in the node's chain; None if the node does not have its height."""
    found = None if row.block_number is None else view.hashes.get(row.block_number)
    return None if found is None else found == row.block_hash


def is_deep(lane: Lane, each: Watched, view: ChainView, network: Network) -> bool:
    """Return whether a mined row is deep enough to become final.

    With rivals, only at finality: a reorg that is deeper than `confirmations` could mine another payload, of an
    attempt that is known, or of one whose commit was lost.
    """
    number = each.row.block_number
    if number is None:
        return False
    if view.is_final(number):
        return True
    if each.has_rivals or each.row.kind != Transaction.Kind.REQUEST or Hold.LOST_COMMITS in lane.holds:
        return False
    return view.head.number - number + 1 >= network.confirmations


def judge(lane: Lane, watched: Sequence[Watched], view: ChainView, network: Network) -> list[Verdict]:
    """Return what the view decides about rows of a lane, at most one verdict for each.

    A missing receipt decides nothing: a node's index may lag behind its blocks.
    """
    verdicts = (_judge(lane, each, view, network) for each in watched)
    return [verdict for verdict in verdicts if verdict is not None]


def _judge(lane: Lane, each: Watched, view: ChainView, network: Network) -> Verdict | None:
    row = each.row
    if row.status in IN_FLIGHT:
        return _judge_in_flight(lane, each, view)
    if row.status == Status.MINED:
        return _judge_mined(lane, each, view, network)
    return _judge_final(row, view) if row.status in FINAL else None


def _judge_in_flight(lane: Lane, each: Watched, view: ChainView) -> Verdict | None:
    for attempt in each.attempts:
        receipt = view.receipts.get(attempt.hash)
        if receipt is not None and view.hashes.get(receipt.block.number, receipt.block.hash) == receipt.block.hash:
            return Mined(each.row, attempt, receipt)
    final = view.counts.get(lane.address, Counts()).final
    return Consumed(each.row) if final is not None and each.nonce < final else None


def _judge_mined(lane: Lane, each: Watched, view: ChainView, network: Network) -> Verdict | None:
    row, attempt = each.row, each.row.mined_attempt
    assert attempt is not None
    canonical = is_canonical(row, view)
    if canonical is None:
        return None
    receipt = view.receipts.get(attempt.hash)
    if not canonical or (receipt is not None and receipt.block.hash != row.block_hash):
        return Reorged(row)
    if receipt is None or not is_deep(lane, each, view, network):
        return None
    status, reason = outcome(row, attempt, receipt)
    return Finished(row, status, reason, receipt)


def outcome(row: Transaction, attempt: Attempt, receipt: Receipt) -> tuple[Status, str]:
    """Return the final status of a row, and its reason, by what was mined for its nonce."""
    if row.kind != Transaction.Kind.REQUEST:
        return Status.CONFIRMED, ""
    if attempt.purpose in NOOP_STATUS:
        # A cancellation takes over the no-op of an expiry that was signed before.
        purpose = NOOP_PURPOSES.get(row.requested_action, Attempt.Purpose(attempt.purpose))
        return NOOP_STATUS[purpose], row.action_reason
    late = too_late(row, attempt)
    if receipt.succeeded:
        return Status.CONFIRMED, late
    return Status.FAILED, f"{REVERTED} {late}".rstrip()


def too_late(row: Transaction, attempt: Attempt | None) -> str:
    """Return which request of its client came after the attempt that is mined, or ""."""
    if attempt is None or attempt.purpose in NOOP_STATUS:
        return ""
    replaced = REPLACED_TOO_LATE if is_superseded(row, attempt) else ""
    canceled = CANCELED_TOO_LATE if row.requested_action == Transaction.Action.CANCEL else ""
    return f"{canceled} {replaced}".strip()


def _judge_final(row: Transaction, view: ChainView) -> Verdict | None:
    """Return whether the chain contradicts a final row. Its status never changes."""
    if row.mined_attempt is None or row.contradicted_at is not None or is_canonical(row, view) is not False:
        return None
    receipt = view.receipts.get(row.mined_attempt.hash)
    if receipt is None:
        return Contradicted(row, f"block {row.block_number} was replaced, and the transaction is in no block")
    if receipt.succeeded != row.succeeded:
        return Contradicted(row, f"the transaction has another result in block {receipt.block.number}")
    return None


def receipt_columns(receipt: Receipt) -> dict[str, Any]:
    price, l1_fee = receipt.effective_gas_price, receipt.l1_fee
    return {
        "block_number": receipt.block.number,
        "block_hash": receipt.block.hash,
        "succeeded": receipt.succeeded,
        "gas_used": receipt.gas_used,
        "effective_gas_price_text": "" if price is None else str(price),
        "l1_fee_text": "" if l1_fee is None else str(l1_fee),
        "contract_address": receipt.contract_address,
    }


NO_RECEIPT: Mapping[str, Any] = {
    "block_number": None,
    "block_hash": "",
    "succeeded": None,
    "gas_used": None,
    "effective_gas_price_text": "",
    "l1_fee_text": "",
    "contract_address": "",
    "mined_attempt": None,
    "mined_at": None,
}
