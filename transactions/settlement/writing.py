"""Writing judgments: one status change for each row, with its time line and event."""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from transactions import metrics
from transactions.changes import Changes, lock_rows
from transactions.events import TRANSACTION_CONTRADICTED, TRANSACTION_REORGED
from transactions.models import Attempt, Lane, Transaction
from transactions.records.signed_payloads import is_superseded, signed_payload
from transactions.records.states import Cause, InvalidTransition
from transactions.settlement import judging

logger = logging.getLogger(__name__)


def write(judgments: Iterable[judging.Judgment], of_lanes: Sequence[Lane]) -> set[int]:
    """Write judgments about rows that are as they were judged; return the lanes of those that changed."""
    chosen = [judgment for judgment in judgments if not isinstance(judgment, judging.Consumed)]
    if not chosen:
        return set()
    rows = lock_rows((judgment.row for judgment in chosen), of_lanes)
    changes, lanes = Changes(rows.values()), set()
    for judgment in chosen:
        row = rows.get(judgment.row.pk)
        if row is None:
            continue
        try:
            _write(changes, row, judgment)
            lanes.add(row.lane_id)
        except InvalidTransition:
            # The rows of other lanes do not wait for it.
            logger.exception("A verdict about the transaction %s is not written", row.identifier)
    changes.save()
    return lanes


def _write(changes: Changes, row: Transaction, judgment: judging.Judgment) -> None:
    match judgment:
        case judging.Mined(_, mined, receipt):
            changes.move(
                row, Cause.MINED, attempt=mined, mined_attempt=mined, **judging.receipt_columns(receipt, mined)
            )
        case judging.Reorged():
            event, attempt = TRANSACTION_REORGED, row.mined_attempt
            if row.last_attempt is not None and row.last_attempt.private_since is not None:
                # Private nodes do not keep what was in a block: it is due again.
                Attempt.objects.filter(pk=row.last_attempt.pk).update(broadcast_block=None)
            changes.move(row, Cause.REORGED, judging.REORGED, attempt=attempt, event=event, **judging.NO_RECEIPT)
        case judging.Finished(_, cause, reason, receipt, is_corroborated):
            assert row.mined_attempt is not None
            columns = {**judging.receipt_columns(receipt, row.mined_attempt), **_executed_payload(row)}
            columns["corroborated_at"] = changes.now if is_corroborated else None
            changes.move(row, cause, reason, attempt=row.mined_attempt, **columns)
        case judging.Disputed(_, reason):
            if row.status_reason != reason:
                logger.warning("The transaction %s is not final. %s", row.identifier, reason)
                changes.update(row, status_reason=reason)
        case judging.Contradicted(_, details):
            logger.critical(
                "The chain contradicts the status %s of the transaction %s: %s", row.status, row.identifier, details
            )
            metrics.count(metrics.CONTRADICTED, row.lane.chain_id)
            changes.announce(row, TRANSACTION_CONTRADICTED, contradicted_at=changes.now)


def _executed_payload(row: Transaction) -> dict[str, Any]:
    """Return the payload of the mined attempt if a replacement came too late: the row is what was executed."""
    attempt = row.mined_attempt
    if attempt is None or not is_superseded(row, attempt):
        return {}
    payload = signed_payload(attempt)
    return {**payload, "payload_version": attempt.payload_version} if payload else {}
