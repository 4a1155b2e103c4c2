"""Send the outbox: hand queued rows over, follow accepted ones, report the end of finished ones."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from relayer_client import Client, errors
from relayer_client.outbox.claims import Claim
from relayer_client.outbox.configuration import open_client
from relayer_client.outbox.following import follow
from relayer_client.outbox.handing_over import HandOver
from relayer_client.outbox.models import OutboxQuerySet, OutboxTransaction
from relayer_client.outbox.pauses import retry_pause
from relayer_client.outbox.restores import Restores
from relayer_client.outbox.signals import transaction_finished, transaction_uncertain

logger = logging.getLogger("relayer_client.outbox")

NOTIFY_ROWS = 100


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What a run has done. `has_more` if rows are still due; `failure` if one was neither accepted nor refused.

    `hold` is why nothing is handed over until staff go on, or "".
    """

    accepted: int
    notified: int
    has_more: bool
    failure: errors.RelayerClientError | None
    hold: str


def send_outbox_once(using: str | None = None) -> Progress:
    """Process the rows that are due now. Any number of processes may do this at the same time."""
    with open_client() as client:
        return run_once(client, using)


def run_once(client: Client, using: str | None = None, should_stop: Callable[[], bool] = lambda: False) -> Progress:
    rows = OutboxTransaction.objects.writable(using)
    restores = Restores(rows.db)
    with restores.watch():
        batch = HandOver(client, rows, restores)
        batch.run(should_stop)
        claims = [batch.claim, follow(client, rows, restores)]
    claim, notified = notify(rows, should_stop)
    return Progress(
        accepted=batch.accepted,
        notified=notified,
        has_more=any(each.is_full for each in (*claims, claim)),
        failure=batch.failure,
        hold=restores.hold,
    )


def notify(rows: OutboxQuerySet, should_stop: Callable[[], bool]) -> tuple[Claim, int]:
    """Send the signals for final and uncertain rows; return how many have been reported."""
    claim, notified = Claim(rows.to_report(), NOTIFY_ROWS), 0
    for row in claim.rows:
        if should_stop():
            claim.release()
            break
        attempts = row.attempts
        try:
            with transaction.atomic(using=rows.db):
                # First, as it locks the row against another sender.
                if claim.save(row, notified_at=timezone.now(), next_attempt_at=None):
                    signal = transaction_finished if row.is_final else transaction_uncertain
                    signal.send(sender=OutboxTransaction, transaction=row)
                    notified += 1
        except Exception:
            logger.exception("A receiver failed for %s.", row.key)
            claim.save(
                row, attempts=attempts + 1, next_attempt_at=timezone.now() + retry_pause(attempts), notified_at=None
            )
    return claim, notified
