"""Writing verdicts: one status change for each row, with its time line and event."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from transactions import metrics
from transactions.changes import Changes, lock_rows
from transactions.events import TRANSACTION_CONTRADICTED, TRANSACTION_REORGED
from transactions.models import Attempt, Status, Transaction
from transactions.settlement.settling import (
    NO_RECEIPT,
    REORGED,
    Consumed,
    Contradicted,
    Finished,
    Mined,
    Reorged,
    Verdict,
    receipt_columns,
)
from transactions.signed_payloads import is_superseded, signed_payload

logger = logging.getLogger(__name__)


def write(verdicts: Iterable[Verdict]) -> set[int]:
    """Write verdicts about rows that are as they were judged; return the lanes of those that changed."""
    chosen = [verdict for verdict in verdicts if not isinstance(verdict, Consumed)]
    if not chosen:
        return set()
    rows = lock_rows(verdict.row for verdict in chosen)
    changes, lanes = Changes(), set()
    for verdict in chosen:
        row = rows.get(verdict.row.pk)
        if row is not None:
            _write(changes, row, verdict)
            lanes.add(row.lane_id)
    changes.save()
    return lanes


def _write(changes: Changes, row: Transaction, verdict: Verdict) -> None:
    match verdict:
        case Mined(_, mined, receipt):
            changes.move(row, Status.MINED, attempt=mined, mined_attempt=mined, **receipt_columns(receipt))
        case Reorged():
            event, attempt = TRANSACTION_REORGED, row.mined_attempt
            if row.last_attempt is not None and row.last_attempt.private_since is not None:
                # Private nodes do not keep what was in a block: it is due again.
                Attempt.objects.filter(pk=row.last_attempt.pk).update(broadcast_block=None)
            changes.move(row, Status.SUBMITTED, REORGED, attempt=attempt, event=event, **NO_RECEIPT)
        case Finished(_, status, reason, receipt):
            columns = {**receipt_columns(receipt), **_executed_payload(row)}
            changes.move(row, status, reason, attempt=row.mined_attempt, **columns)
        case Contradicted(_, details):
            logger.critical(
                "The chain contradicts the status %s of the transaction %s: %s", row.status, row.identifier, details
            )
            metrics.observe_contradicted(row.lane.chain_id)
            changes.announce(row, TRANSACTION_CONTRADICTED, contradicted_at=changes.now)


def _executed_payload(row: Transaction) -> dict[str, Any]:
    """Return the payload of the mined attempt if the row was replaced in vain: the row is what was executed."""
    attempt = row.mined_attempt
    if attempt is None or not is_superseded(row, attempt):
        return {}
    payload = signed_payload(attempt)
    return {**payload, "payload_version": attempt.payload_version} if payload else {}
