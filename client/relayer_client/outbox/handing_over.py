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
from relayer_client.checks import InvalidId
from relayer_client.outbox.claims import Claim
from relayer_client.outbox.following import is_not_found, progress, read
from relayer_client.outbox.models import OutboxQuerySet, OutboxTransaction, Status
from relayer_client.outbox.pauses import MAX_GROWTH, retry_pause
from relayer_client.outbox.restores import Restores

logger = logging.getLogger("relayer_client.outbox")

# Small, as a sender that is killed leaves a doubt about each of them.
BATCH_ROWS = 25
# So many accepted rows are read before a row is sent again that may have been accepted: within half of the lease, also
# if the service takes a second for each.
PROBES = 10
# Well below the day for which the service keeps a transaction at least.
REPEAT_LIMIT = timedelta(hours=20)
TOO_LATE = (
    "It was handed over at {} without an answer, and the service may have forgotten its key since. "
    "Check whether it was sent."
)
OTHER_BODY = "The service has its key with another body. Check whether it was sent."
UNANSWERED = "{} It was handed over at {} without an answer. Check whether it was sent."
# Codes of bad requests that are not about the transaction.
NOT_THE_BODY = frozenset({None, "bad_request", "https_required", "invalid_header", "incomplete_body"})
# The other rows of the relayer would be refused, too.
OF_THE_RELAYER = (errors.Forbidden, errors.NotFound, errors.Conflict, errors.QueueFull)


class HandOver:
    """A batch of queued rows. `failure` is the last one that is no refusal."""

    def __init__(self, client: Client, rows: OutboxQuerySet, restores: Restores) -> None:
        self.client = client
        self.restores = restores
        self.rows, self.queued = rows, rows.queued()
        self.failure: errors.RelayerClientError | None = None
        self.accepted, self.is_read = 0, True
        self.refusing_relayers: set[str] = set()
        self.started = timezone.now()
        if restores.hold:
            later = self.started + retry_pause(MAX_GROWTH)
            if self.queued.due().update(status_reason=restores.hold, next_attempt_at=later):
                logger.error(restores.hold)
        # Before any request: whoever finds the row after a kill knows that there may have been one.
        since = Coalesce("unanswered_since", Value(self.started))
        self.claim = Claim(self.queued.none() if restores.hold else self.queued, BATCH_ROWS, unanswered_since=since)

    def run(self, should_stop: Callable[[], bool]) -> None:
        rows = [row for row in self.claim.rows if self._has_path(row)]
        relayers: dict[str, set[str]] = {row.relayer: set() for row in rows}
        if any(row.unanswered_since != self.started for row in rows):
            # A restored service, which may have forgotten their keys, also lacks what it accepted since the backup. It
            # deletes nothing so soon.
            for row in self.rows.exclude(transaction_id="").order_by("-pk")[:PROBES]:
                is_recent = row.created_at > self.started - REPEAT_LIMIT and not self.restores.explain(row)
                relayers.setdefault(row.relayer, set()).update({row.transaction_id} if is_recent else ())
        for relayer, accepted in relayers.items():
            if not self.claim.has_ended:
                self._probe(relayer, accepted)
        self.restores.save()
        for row in rows:
            if self.restores.hold or self.claim.has_ended or should_stop():
                self.claim.release(unanswered_since=self._without_own_doubt())
                break
            # Without all readings, a doubt waits for the end of the lease.
            if row.relayer not in self.refusing_relayers and (self.is_read or row.unanswered_since == self.started):
                self._send(row)

    def _has_path(self, row: OutboxTransaction) -> bool:
        """Return whether the relayer's ID can be sent; end a row of an earlier release whose ID cannot."""
        try:
            self.client.relayer(row.relayer)
        except InvalidId as error:
            self._end(row, error)
            return False
        return True

    def _probe(self, relayer: str, accepted: set[str]) -> None:
        """Read something first: an outage then leaves no row in doubt, and a restored database is noticed."""
        try:
            found = read(self.client.relayer(relayer), accepted, self.claim)
            self.is_read = self.is_read and found.keys() == accepted
            if None in found.values():
                self.restores.report(relayer, "a transaction that was accepted lately is missing")
        except (errors.ServerError, *errors.TRANSIENT) as error:
            self.is_read = False
            self._postpone(relayer, error)
        except (errors.ApiError, InvalidId):
            # Whether it refuses to send, too, is for the request to find out.
            self.is_read = self.is_read and not accepted

    def _send(self, row: OutboxTransaction) -> None:
        since = row.unanswered_since or self.started
        if since < self.started - REPEAT_LIMIT:
            self._doubt(row, TOO_LATE.format(since.isoformat(timespec="seconds")))
            return
        try:
            sent = self.client.relayer(row.relayer).send(idempotency_key=str(row.idempotency_key), **row.fields())
        except errors.IdempotencyKeyReused:
            self._doubt(row, OTHER_BODY)
        except errors.RelayerClientError as error:
            if is_rejected(error):
                self._end(row, error)
            else:
                self._postpone(row.relayer, error, row)
        else:
            self.accepted += 1
            self.claim.save(row, transaction_id=sent.id, unanswered_since=None, **progress(row, sent))

    def _end(self, row: OutboxTransaction, error: Exception) -> None:
        """End a row that will never be accepted: as `uncertain` if an earlier request may have been."""
        since = row.unanswered_since or self.started
        if since != self.started or getattr(error, "may_have_been_carried_out", False):
            self._doubt(row, UNANSWERED.format(error, since.isoformat(timespec="seconds")))
            return
        logger.warning("%s was rejected: %s", row.key, error)
        values = {"status": Status.FAILED, "status_reason": str(error), "attempts": 0, "unanswered_since": None}
        self.claim.save(row, next_attempt_at=timezone.now(), **values)

    def _doubt(self, row: OutboxTransaction, reason: str) -> None:
        logger.error("%s is uncertain: %s", row.key, reason)
        values = {"status": Status.UNCERTAIN, "status_reason": reason, "attempts": 0}
        self.claim.save(row, next_attempt_at=timezone.now(), **values)

    def _postpone(self, relayer: str, error: errors.RelayerClientError, row: OutboxTransaction | None = None) -> None:
        """Try a row again later, and all of its relayer that may fail, too: longer each time."""
        logger.warning("%s was not accepted: %s", row or relayer, error)
        is_about_row, is_refusal = isinstance(error, errors.SpendingRefused), isinstance(error, OF_THE_RELAYER)
        same = [each for each in self.claim.rows if each.relayer == relayer]
        if row and (is_about_row or not is_refusal):
            same = [row]
        if not is_refusal:
            self.failure = error
        later = timezone.now() + retry_pause(max((each.attempts for each in same), default=0), error)
        values = {"status_reason": str(error), "attempts": F("attempts") + 1, "next_attempt_at": later}
        if row:
            doubt = F("unanswered_since") if error.may_have_been_carried_out else self._without_own_doubt()
            # After a failure that may be its own, it goes after the others.
            tries = 1 if is_refusal else 2
            self.claim.save(row, **values | {"unanswered_since": doubt, "attempts": row.attempts + tries})
        if not is_about_row:
            self.refusing_relayers.add(relayer)
            self.queued.filter(relayer=relayer).due().update(**values)
            claimed = self.claim.left.filter(relayer=relayer)
            claimed.update(claim=None, unanswered_since=self._without_own_doubt(), **values)

    def _without_own_doubt(self) -> Expression:
        """Return `unanswered_since` without what this batch has set; an earlier doubt stays."""
        return NullIf("unanswered_since", Value(self.started))


def is_rejected(error: errors.RelayerClientError) -> bool:
    """Return whether the transaction itself is wrong, or there is no such relayer."""
    return is_not_found(error) or (isinstance(error, errors.BadRequest) and error.code not in NOT_THE_BODY)
