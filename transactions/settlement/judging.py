"""Judging rows by what a node reported: a pure function from rows and a view of the chain to judgments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chain.networks import Network
from chain.nodes.plausibility import at_most
from relayer_service.net.addresses import mask
from transactions.models import FINAL, IN_FLIGHT, NOOPS, Attempt, Hold, Lane, Status, Transaction
from transactions.records.reasons import too_late
from transactions.records.states import Cause
from transactions.settlement.reading import ChainView, Counts, Receipt

REVERTED = "The transaction was executed and reverted."
REORGED = "A reorg removed its block. It is broadcast again."
# What was signed last was executed: one node is believed.
EXECUTED = {Cause.SUCCEEDED, Cause.GAP_CLOSED}


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
        return len({0 if each.purpose in NOOPS else each.payload_version for each in self.attempts}) > 1


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
    cause: Cause
    reason: str
    receipt: Receipt
    # Whether a second node reported the same.
    is_corroborated: bool = False


@dataclass(frozen=True)
class Disputed:
    row: Transaction
    reason: str


@dataclass(frozen=True)
class Consumed:
    """The nonce was used in a final block, and none of the row's attempts has a receipt."""

    row: Transaction


@dataclass(frozen=True)
class Contradicted:
    row: Transaction
    details: str


Judgment = Mined | Reorged | Finished | Disputed | Consumed | Contradicted


def receipts_to_read(lane: Lane, watched: Sequence[Watched], view: ChainView, network: Network) -> list[str]:
    """Return the hashes of attempts that may be in a block, and of those whose row may become final."""
    count = view.counts.get(lane.address, Counts()).latest or 0
    hashes = []
    for each in watched:
        is_used = each.row.status in IN_FLIGHT and each.nonce < count
        if is_used or is_disputed(each.row) or (each.row.mined_attempt and _needs_receipt(lane, each, view, network)):
            hashes += [attempt.hash for attempt in each.attempts]
    return hashes


def receipts_to_compare(lane: Lane, watched: Sequence[Watched], view: ChainView, network: Network) -> list[str]:
    """Return the hashes to read from a second node: of rows that may end without having executed their payload."""

    def is_compared(each: Watched) -> bool:
        judgment = _judge(lane, each, view, network)
        is_doubted = each.has_rivals or Hold.LOST_COMMITS in lane.holds
        is_otherwise = isinstance(judgment, Finished) and (is_doubted or judgment.cause not in EXECUTED)
        return is_otherwise or is_disputed(each.row)

    return [attempt.hash for each in watched if is_compared(each) for attempt in each.attempts]


def is_disputed(row: Transaction) -> bool:
    """Return whether nodes contradict each other about a mined row, which has no other reason."""
    return row.status == Status.MINED and bool(row.status_reason)


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


def judge(lane: Lane, watched: Sequence[Watched], view: ChainView, network: Network) -> list[Judgment]:
    """Return what the view decides about rows of a lane, at most one judgment for each.

    A missing receipt decides nothing: a node's index may lag behind its blocks.
    """
    judgments = (_judge(lane, each, view, network) for each in watched)
    return [judgment for judgment in judgments if judgment is not None]


def _judge(lane: Lane, each: Watched, view: ChainView, network: Network) -> Judgment | None:
    row = each.row
    if row.status in IN_FLIGHT:
        return _judge_in_flight(lane, each, view)
    if row.status == Status.MINED:
        return _judge_mined(lane, each, view, network)
    return _judge_final(row, view) if row.status in FINAL else None


def _judge_in_flight(lane: Lane, each: Watched, view: ChainView) -> Judgment | None:
    for attempt in each.attempts:
        receipt = view.receipts.get(attempt.hash)
        if receipt is not None and view.hashes.get(receipt.block.number, receipt.block.hash) == receipt.block.hash:
            return Mined(each.row, attempt, receipt)
    final = view.counts.get(lane.address, Counts()).final
    return Consumed(each.row) if final is not None and each.nonce < final else None


def _judge_mined(lane: Lane, each: Watched, view: ChainView, network: Network) -> Judgment | None:
    row, attempt = each.row, each.row.mined_attempt
    assert attempt is not None
    canonical = is_canonical(row, view)
    if canonical is None:
        return None
    receipt = view.receipts.get(attempt.hash)
    if not canonical or (receipt is not None and receipt.block.hash != row.block_hash):
        return Reorged(row)
    if receipt is None and is_disputed(row):
        found = (view.receipts.get(other.hash) for other in each.attempts)
        is_agreed = any(other and (view.second is None or view.is_corroborated(other)) for other in found)
        return Reorged(row) if is_agreed else None
    if not is_deep(lane, each, view, network):
        return None
    if receipt is None:
        # The node that reported it was wrong if the nonce is unused at this depth, or was used by another attempt.
        count = view.counts.get(lane.address, Counts()).latest
        is_unused = count is not None and count <= each.nonce
        return Reorged(row) if is_unused or any(other.hash in view.receipts for other in each.attempts) else None
    cause, reason = outcome(row, attempt, receipt)
    is_corroborated = view.is_corroborated(receipt)
    if Hold.LOST_COMMITS in lane.holds and view.second is not None and not is_corroborated:
        # What ends the seal has requests signed that may have been sent.
        return None
    if cause not in EXECUTED and view.second is not None:
        if dispute := _dispute(each, receipt, view, view.second):
            return Disputed(row, dispute)
        if is_disputed(row) and not is_corroborated:
            return None
    return Finished(row, cause, reason, receipt, is_corroborated)


def _dispute(each: Watched, receipt: Receipt, view: ChainView, second: Mapping[str, Receipt]) -> str:
    """Return both answers if the second node has another attempt in a block, or another result; else ""."""
    for found in (second.get(attempt.hash) for attempt in each.attempts):
        if found is not None and (found.hash, found.succeeded) != (receipt.hash, receipt.succeeded):
            # Sorted, as the next look may ask them the other way round.
            both = ((view.url, receipt), (view.second_url, found))
            result = "{} reports {} in block {} with status {:d}".format
            answers = sorted(result(mask(url), one.hash, one.block.number, one.succeeded) for url, one in both)
            return f"Nodes contradict each other: {'; '.join(answers)}. It becomes final when they agree."
    return ""


def outcome(row: Transaction, attempt: Attempt, receipt: Receipt) -> tuple[Cause, str]:
    """Return why a row becomes final, and its reason, by what was mined for its nonce."""
    if row.kind != Transaction.Kind.REQUEST:
        return Cause.GAP_CLOSED, ""
    if attempt.purpose in NOOPS:
        # The action decides: a cancellation takes over the no-op of an expiry that was signed before.
        return Cause.NOOP_MINED, row.action_reason
    late = too_late(row, attempt)
    if receipt.succeeded:
        return Cause.SUCCEEDED, late
    return Cause.REVERTED, f"{REVERTED} {late}".rstrip()


def _judge_final(row: Transaction, view: ChainView) -> Judgment | None:
    """Return whether the chain contradicts a final row. Its status never changes."""
    if row.mined_attempt is None or row.contradicted_at is not None or is_canonical(row, view) is not False:
        return None
    receipt = view.receipts.get(row.mined_attempt.hash)
    if receipt is None:
        return Contradicted(row, f"block {row.block_number} was replaced, and the transaction is in no block")
    if receipt.succeeded != row.succeeded:
        return Contradicted(row, f"the transaction has another result in block {receipt.block.number}")
    return None


def receipt_columns(receipt: Receipt, attempt: Attempt) -> dict[str, Any]:
    """Return the columns of a receipt, without gas and a price that the signed bytes do not allow."""
    max_price = int(attempt.max_fee_text or attempt.gas_price_text or receipt.effective_gas_price or 0)
    price, l1_fee = at_most(max_price, receipt.effective_gas_price), receipt.l1_fee
    return {
        "block_number": receipt.block.number,
        "block_hash": receipt.block.hash,
        "succeeded": receipt.succeeded,
        "gas_used": at_most(attempt.gas_limit, receipt.gas_used),
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
