"""The outbox: the rows of deliveries, claimed by a worker under a lease and written back with their outcome.

A target that answers 410 Gone receives nothing more: its due deliveries fail without being sent. One that fails
otherwise receives a single delivery at a time until an attempt succeeds. The due deliveries of a disabled target wait
until it is enabled again.
"""

import logging
import uuid
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Subquery
from django.utils import timezone

from notifications.delivery import alerts
from notifications.delivery.posting import Outcome, next_attempt, observe_attempt
from notifications.models import Attempt, Delivery, Notification
from relayer_service.audit.actors import ActorKind, acting_as
from relayer_service.audit.recording import changed, record
from relayer_service.database.clock import DatabaseNow, database_now
from relayer_service.observability import tracing
from relayer_service.observability.logs import request_id

logger = logging.getLogger(__name__)

# Deliveries of one target that a worker claims: enough to keep sending while it writes others back.
MAX_CLAIMED = 64
# A claimed delivery is sent within this time, or released.
MAX_CLAIMED_SECONDS = 3
# The rest of a lease after the attempt: the row is written back within it, or is due again.
LEASE_MARGIN_SECONDS = 5
GONE = "Not sent: the webhook returned 410 Gone."


def due_targets(*events: str) -> list[int]:
    """Return the keys of the targets that deliveries are due to, of these events or of all."""
    due = Delivery.objects.filter(notification=OuterRef("pk"), due_at__lte=DatabaseNow())
    if events:
        due = due.filter(event__in=events)
    return list(Notification.objects.filter(Exists(due), enabled=True).values_list("pk", flat=True))


@dataclass
class OutboxBatch:
    """One transaction with the rows of one target: outcomes are written back, and due deliveries are claimed.

    A worker claims all deliveries of a target under one lease, and while it lasts no other worker claims any: this
    limits the deliveries in flight to a target.
    """

    target_pk: int
    lease: uuid.UUID
    outcomes: list[Outcome] = field(default_factory=list)
    unsent: list[Delivery] = field(default_factory=list)
    room: int = 0
    target_fails: bool = False
    # The events to claim; by default all.
    events: Collection[str] = ()
    # The keys of other targets for which alerts were created.
    alerted: set[int] = field(default_factory=set)

    def run(self, include_failing: bool) -> list[Delivery]:
        """Write back and claim with the target's row locked, and return the claimed rows.

        A worker that finds the row locked claims nothing, and waits only if it has outcomes to write. Nothing is
        written for a target that was deleted in the meantime.
        """
        claimed: list[Delivery] = []
        with transaction.atomic():
            locked = Notification.objects.select_for_update(skip_locked=not self.outcomes, no_key=True)
            target = locked.filter(pk=self.target_pk).first()
            if self.unsent:
                Delivery.objects.held(self.unsent).update(due_at=DatabaseNow(), lease=None)
            if target is not None:
                write_outcomes(self.outcomes)
                self.alerted = update_target_health(target, self.outcomes)
                claimed = self._claim(target, include_failing)
        for outcome in self.outcomes:
            log_outcome(outcome)
        return claimed

    def _claim(self, target: Notification, include_failing: bool) -> list[Delivery]:
        self.target_fails = target.failing_since is not None
        if not target.enabled:
            return []
        due = Delivery.objects.filter(notification=target, due_at__lte=DatabaseNow())
        if target.gone_at:
            due.update(state=Delivery.State.FAILED, due_at=None, lease=None, error=GONE)
            return []
        # A failing target gives way to others after its attempt; the sweep claims it again.
        must_wait = self.target_fails and (bool(self.outcomes) or not include_failing)
        leased = Delivery.objects.filter(Delivery.leased(), notification=target)
        if self.room <= 0 or must_wait or leased.exclude(lease=self.lease).exists():
            return []
        if self.events:
            due = due.filter(event__in=self.events)
        room = min(self.room, 1) if self.target_fails else self.room
        rows: list[Delivery] = due.claim(room, lease_length(), self.lease)
        for row in rows:
            row.notification = target
        return rows


def write_outcomes(outcomes: list[Outcome]) -> None:
    """Save each attempt, and its outcome on its delivery unless the lease was lost."""
    if not outcomes:
        return
    Attempt.objects.bulk_create(
        Attempt(
            delivery=outcome.delivery,
            started_at=outcome.started_at,
            milliseconds=outcome.milliseconds,
            response_code=outcome.response_code,
            answer=outcome.answer,
            error=outcome.error,
            signature=outcome.signature,
        )
        for outcome in outcomes
    )
    last_start = Attempt.objects.filter(delivery=OuterRef("pk")).order_by("-id").values("started_at")[:1]
    # Most attempts succeed with the same status: one statement for all of them.
    for code in {outcome.response_code for outcome in outcomes if outcome.succeeded}:
        rows = [outcome.delivery for outcome in outcomes if outcome.response_code == code]
        Delivery.objects.held(rows).update(
            state=Delivery.State.DELIVERED,
            due_at=None,
            lease=None,
            attempts_made=F("attempts_made") + 1,
            attempted_at=Subquery(last_start),
            response_code=code,
            error="",
        )
    for outcome in outcomes:
        if not outcome.succeeded:
            reschedule(outcome)


def reschedule(outcome: Outcome) -> None:
    """Release a delivery until its next attempt; mark it failed after the last one or after 410 Gone."""
    attempts_made, due_at = outcome.delivery.attempts_made + 1, None
    if not outcome.gone:
        due_at = next_attempt(settings.WEBHOOK_SCHEDULE, attempts_made, database_now(), outcome.retry_after)
    outcome.delivery.release(
        due_at,
        state=Delivery.State.PENDING if due_at else Delivery.State.FAILED,
        attempts_made=attempts_made,
        attempted_at=outcome.started_at,
        response_code=outcome.response_code,
        error=outcome.error,
    )


def log_outcome(outcome: Outcome) -> None:
    """Count and log an attempt, under the id and in the trace of the request that caused the event."""
    observe_attempt(outcome)
    sender = request_id.set(outcome.delivery.request_id or "-")
    fields = {
        "delivery": outcome.delivery.identifier,
        "notification": outcome.delivery.notification.identifier,
        "event": outcome.delivery.event,
        "attempt": outcome.delivery.attempts_made + 1,
        "response_code": outcome.response_code,
        "milliseconds": outcome.milliseconds,
    }
    with tracing.following(outcome.delivery.traceparent):
        if outcome.succeeded:
            logger.info("Webhook delivered to %s", outcome.delivery.notification, extra={"fields": fields})
        else:
            logger.warning(
                "Webhook to %s failed: %s", outcome.delivery.notification, outcome.error, extra={"fields": fields}
            )
    request_id.reset(sender)


def lease_length() -> timedelta:
    seconds = MAX_CLAIMED_SECONDS + settings.WEBHOOK_TIMEOUT_SECONDS + LEASE_MARGIN_SECONDS
    return timedelta(seconds=seconds)


def update_target_health(target: Notification, outcomes: list[Outcome]) -> set[int]:
    """Save when the target started to fail or returned 410 Gone; return the keys of the targets that are alerted."""
    # Attempts at an earlier URL do not count for the current one.
    outcomes = [outcome for outcome in outcomes if outcome.delivery.notification.url == target.url]
    changes: dict[str, Any] = {}
    if any(outcome.succeeded for outcome in outcomes):
        changes |= {"failing_since": None, "failing_error": ""}
    elif outcomes:
        changes["failing_error"] = outcomes[-1].error
        if target.failing_since is None:
            # The start of the attempt by the database's clock: this worker's clock may be wrong.
            changes["failing_since"] = database_now() - (timezone.now() - outcomes[0].started_at)
    # Other attempts in flight may get 410 too: the first one counts.
    if target.gone_at is None and any(outcome.gone for outcome in outcomes):
        changes["gone_at"] = database_now()
    changes = {name: value for name, value in changes.items() if getattr(target, name) != value}
    if changes:
        Notification.objects.filter(pk=target.pk).update(**changes)
        with acting_as(ActorKind.WORKER, "webhook sender"):
            audited = {name: value for name, value in changes.items() if name != "failing_error"}
            record([changed(target, {name: getattr(target, name) for name in audited}, audited)])
        for name, value in changes.items():
            setattr(target, name, value)
    if outcomes and not target.tried:
        Notification.objects.filter(pk=target.pk).update(tried=True)
    return alerts.announce(target, outcomes, became_gone="gone_at" in changes)
