"""Hand queued rows over to the service.

A row is sent as often as needed, always with the same idempotency key and body, so the service accepts it once. It
forgets a key with its transaction, TRANSACTIONS_KEEP_DAYS after the end: a row that may have been accepted is not sent
again after REPEAT_LIMIT, but becomes `uncertain`, which staff resolve.
"""

import logging
from collections.abc import Callable
from datetime import timedelta

from django.db.models import Expression, F, Value
from django.db.models.functions import Coalesce, NullIf
from django.utils import timezone

from relayer_client import Client, errors
from relayer_client.outbox.claims import Claim
from relayer_client.outbox.following import progress
from relayer_client.outbox.models import OutboxQuerySet, OutboxTransaction, Status
from relayer_client.outbox.pauses import retry_pause

logger = logging.getLogger("relayer_client.outbox")

# Small, as a sender that is killed leaves a doubt about each of them.
BATCH_ROWS = 25
# Well below the day for which the service keeps a transaction at least.
REPEAT_LIMIT = timedelta(hours=20)
TOO_LATE = (
    "It was handed over at {} without an answer, and the service may have forgotten its key since. "
    "Check whether it was sent."
)
OTHER_BODY = "The service has its key with another body. Check whether it was sent."
OTHER_ID = "{} It was handed over at {} without an answer. Check whether it was sent."
# Codes of bad requests that are not about the transaction.
NOT_THE_BODY = frozenset({None, "bad_request", "https_required", "invalid_header", "incomplete_body"})
# The other rows of the relayer would be refused, too.
OF_THE_RELAYER = (errors.Forbidden, errors.NotFound, errors.Conflict, errors.QueueFull)


class HandOver:
    """A batch of queued rows. `failure` is why it has ended early: the service cannot be used."""

    def __init__(self, client: Client, rows: OutboxQuerySet) -> None:
        self.client = client
        self.queued = rows.queued()
        self.failure: errors.RelayerClientError | None = None
        self.accepted = 0
        self.refusing_relayers: set[str] = set()
        self.started = timezone.now()
        # Before any request: whoever finds the row after a kill knows that there may have been one.
        since = Coalesce("unanswered_since", Value(self.started))
        self.claim = Claim(self.queued, BATCH_ROWS, unanswered_since=since)

    def run(self, should_stop: Callable[[], bool]) -> None:
        rows = [row for row in self.claim.rows if self._has_path(row)]
        if rows:
            self._probe(rows[0])
        for row in rows:
            if self.failure is not None or self.claim.has_ended or should_stop():
                self.claim.release(unanswered_since=self._without_own_doubt())
                break
            if row.relayer not in self.refusing_relayers:
                self._send(row)

    def _has_path(self, row: OutboxTransaction) -> bool:
        """Return whether the relayer's ID can be sent; end a row of an earlier release whose ID cannot."""
        try:
            self.client.relayer(row.relayer)
        except ValueError as error:
            since = row.unanswered_since
            if since is None or since == self.started:
                self._reject(row, error)
            else:
                self._doubt(row, OTHER_ID.format(error, since.isoformat(timespec="seconds")))
            return False
        return True

    def _probe(self, row: OutboxTransaction) -> None:
        """Read something first: an outage then leaves no row in doubt."""
        try:
            self.client.relayer(row.relayer).list_transactions(per_page=1).first()
        except (*errors.TRANSIENT, errors.ServerError) as error:
            logger.warning("The service is unavailable: %s", error)
            self.failure = error
        except errors.ApiError:
            # Whether it refuses to send, too, is for the request to find out.
            pass

    def _send(self, row: OutboxTransaction) -> None:
        since = row.unanswered_since
        if since is not None and since < self.started - REPEAT_LIMIT:
            self._doubt(row, TOO_LATE.format(since.isoformat(timespec="seconds")))
            return
        try:
            sent = self.client.relayer(row.relayer).send(idempotency_key=str(row.idempotency_key), **row.fields())
        except errors.IdempotencyKeyReused:
            self._doubt(row, OTHER_BODY)
        except errors.RelayerClientError as error:
            if is_rejected(error):
                self._reject(row, error)
            else:
                self._postpone(row, error)
        else:
            self.accepted += 1
            self.claim.save(row, transaction_id=sent.id, unanswered_since=None, **progress(row, sent))

    def _reject(self, row: OutboxTransaction, error: Exception) -> None:
        logger.warning("%s was rejected: %s", row.key, error)
        values = {"status": Status.FAILED, "status_reason": str(error), "attempts": 0, "unanswered_since": None}
        self.claim.save(row, next_attempt_at=timezone.now(), **values)

    def _doubt(self, row: OutboxTransaction, reason: str) -> None:
        logger.error("%s is uncertain: %s", row.key, reason)
        self.claim.save(row, status=Status.UNCERTAIN, status_reason=reason, next_attempt_at=None)

    def _postpone(self, row: OutboxTransaction, error: errors.RelayerClientError) -> None:
        """Try a row again later, and with it what would be refused for the same reason."""
        logger.warning("%s was not accepted: %s", row.key, error)
        later = timezone.now() + retry_pause(row.attempts, error)
        doubt = F("unanswered_since") if error.may_have_been_carried_out else self._without_own_doubt()
        values = {"status_reason": str(error), "attempts": row.attempts + 1, "unanswered_since": doubt}
        self.claim.save(row, next_attempt_at=later, **values)
        if isinstance(error, errors.SpendingRefused):
            return
        if isinstance(error, OF_THE_RELAYER):
            self.refusing_relayers.add(row.relayer)
            same = self.queued.filter(relayer=row.relayer)
            same.due().update(next_attempt_at=later)
            claimed = self.claim.left.filter(relayer=row.relayer)
            claimed.update(claim=None, next_attempt_at=later, unanswered_since=self._without_own_doubt())
        else:
            self.failure = error

    def _without_own_doubt(self) -> Expression:
        """Return `unanswered_since` without what this batch has set; an earlier doubt stays."""
        return NullIf("unanswered_since", Value(self.started))


def is_rejected(error: errors.RelayerClientError) -> bool:
    """Return whether the transaction itself is wrong, so that it would be rejected again."""
    return isinstance(error, errors.BadRequest) and error.code not in NOT_THE_BODY
