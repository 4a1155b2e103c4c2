"""Writing the status of transactions: each change with its timeline entry and webhook, in one transaction."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django.db.models import QuerySet

from notifications.delivery.creating import Emission
from notifications.emitting import emit_each
from relayer_service.audit.actors import Actor
from relayer_service.database.clock import DatabaseNow, database_now
from relayer_service.database.compiled import compiled
from relayer_service.database.inserting import insert
from relayer_service.database.updating import update_each
from relayer_service.observability.logs import redact
from relayers.models import Relayer
from transactions import metrics
from transactions.events import BY_STATUS, RequestedEvent, TransactionChangeData, TransactionEvent
from transactions.limits.status_changes import changes_charges, settle
from transactions.models import FINAL, UNSUCCESSFUL, Attempt, Lane, Status, StatusChange, Transaction
from transactions.records.reasons import status_reason
from transactions.records.representation import TransactionData, transaction_data
from transactions.records.states import Cause, target

logger = logging.getLogger(__name__)

ATTEMPTS = ("last_attempt", "mined_attempt")
# The column with the time of each status.
TIMES = {Status.SENT: "sent_at", Status.SUBMITTED: "submitted_at", Status.MINED: "mined_at"}
LINE_COLUMNS = (
    "transaction_id", "version", "from_status", "to_status", "at", "reason", "attempt_id", "block_number",
)  # fmt: skip


def locking_rows() -> QuerySet[Transaction]:
    """Return a query that locks rows in order, with all that a change of their status reads."""
    rows = Transaction.objects.select_for_update(no_key=True, of=("self",)).order_by("pk")
    rows = rows.select_related(*ATTEMPTS, "lane__watch", "relayer__notification")
    return rows.annotate(now=DatabaseNow())


def lock_rows(rows: Iterable[Transaction], lanes: Sequence[Lane] = ()) -> dict[int, Transaction]:
    """Lock rows and return those that are as they were read, by primary key; the others have changed.

    They keep their attempts, and share these lanes.
    """
    known = {row.pk: row for row in rows}
    locked = {row.pk: row for row in lock_by_key(known, lanes) if row.version == known[row.pk].version}
    loaded = (row._state.fields_cache.get(name) for row in known.values() for name in ATTEMPTS)
    attach_attempts(locked.values(), [attempt for attempt in loaded if attempt is not None])
    return locked


def attach_attempts(rows: Iterable[Transaction], attempts: Iterable[Attempt]) -> None:
    """Set the attempts that rows refer to; one that is not among these is read when it is needed."""
    by_key = {attempt.pk: attempt for attempt in attempts}
    for row in rows:
        used = {name: getattr(row, f"{name}_id") for name in ATTEMPTS}
        row._state.fields_cache |= {name: by_key[pk] for name, pk in used.items() if pk in by_key}


def lock_by_key(pks: Iterable[int], lanes: Sequence[Lane] = ()) -> list[Transaction]:
    by_key = {lane.pk: lane for lane in lanes}
    relayers = {lane.relayer_id: lane.relayer for lane in lanes}
    rows: list[Transaction] = _locked(sorted(pks))
    if others := {row.relayer_id for row in rows} - relayers.keys():
        relayers |= Relayer.objects.select_related("notification").in_bulk(others)
    for row in rows:
        # In the cache: rows keep the key of a relayer that was deleted.
        row._state.fields_cache["relayer"] = relayers.get(row.relayer_id)
        if row.lane_id in by_key:
            row.lane = by_key[row.lane_id]
    return rows


@compiled()
def _locked(pks: list[int]) -> QuerySet[Transaction]:
    return locking_rows().filter(pk__in=pks).select_related(None)


def log_change(row: Transaction, before: str, cause: str, reason: str = "", attempt: Attempt | None = None) -> None:
    """Log a change of status once it is committed."""
    attempt, relayer = attempt or row.attempt, redact(row.relayer.identifier) if row.relayer else None
    fields: dict[str, Any] = {"transaction": row.identifier, "relayer": relayer, "from_status": before}
    fields |= {"status": row.status, "nonce": row.nonce, "hash": attempt.hash if attempt else None}
    # Redacted here: in the whole line, the hash would be taken for a key.
    fields |= {"cause": cause, "reason": redact(reason)}
    extra = {"fields": fields, "fields_in_text": True, "redacted": True}
    transaction.on_commit(lambda: logger.info("Status changed", extra=extra), robust=True)


class Changes:
    """The changes of one database transaction, whose rows the caller has locked (`lock_rows`)."""

    def __init__(self, rows: Iterable[Transaction] = ()) -> None:
        # When the statement that locked them began.
        self.now: datetime = next((row.now for row in rows if hasattr(row, "now")), None) or database_now()
        self._columns: dict[int, set[str]] = defaultdict(set)
        self._rows: dict[int, Transaction] = {}
        # Timeline entries: the values of `LINE_COLUMNS`.
        self._lines: list[tuple[Any, ...]] = []
        self._events: list[tuple[TransactionEvent[Any], Transaction]] = []
        self._observations: list[Callable[[], None]] = []
        # Rows that count otherwise on spending limits than before.
        self._settled: list[Transaction] = []

    def update(self, row: Transaction, **columns: Any) -> None:
        """Change columns of a row. The version rises once in this transaction; a new reason replaces its code."""
        if row.pk not in self._rows:
            self._rows[row.pk] = row
            row.version += 1
            self._columns[row.pk].add("version")
        if "status_reason" in columns:
            columns.setdefault("reason_code", None)
        for name, value in columns.items():
            setattr(row, name, value)
            self._columns[row.pk].add(name)

    def move(
        self,
        row: Transaction,
        cause: Cause,
        reason: str = "",
        *,
        attempt: Attempt | None = None,
        event: TransactionEvent[Any] | None = None,
        **columns: Any,
    ) -> None:
        """Change the status of a row, once per transaction; by default with the event of the status."""
        status = target(row, cause, columns, self.now)
        is_counted = changes_charges(row, status)
        before, is_first = row.status, status not in TIMES or getattr(row, TIMES[status]) is None
        if status in TIMES:
            columns.setdefault(TIMES[status], self.now)
        if status in FINAL:
            columns |= {"finished_at": self.now, "requested_action": ""}
            columns["unsuccessful"] = status if status in UNSUCCESSFUL else None
        self.update(row, status=status, status_reason=reason, **columns)
        attempt_id = attempt.pk if attempt else None
        self._lines.append((row.pk, row.version, before, status, self.now, reason, attempt_id, row.block_number))
        if chosen := event or BY_STATUS.get(status):
            self._events.append((chosen, row))
        log_change(row, before, cause, reason, attempt)
        if is_counted:
            self._settled.append(row)
        self._observations.append(metrics.observation(row, before, self.now, is_first))

    def announce(self, row: Transaction, event: TransactionEvent[Any], **columns: Any) -> None:
        """Change columns of a row and emit an event; its status stays."""
        self.update(row, **columns)
        self._events.append((event, row))

    def save(self) -> None:
        """Write all changes and create the deliveries of their events."""
        assert connection.in_atomic_block
        groups: dict[frozenset[str], list[Transaction]] = defaultdict(list)
        for pk, row in self._rows.items():
            groups[frozenset(self._columns[pk])].append(row)
        for columns, rows in groups.items():
            update_each(rows, columns)
        if self._lines:
            insert(StatusChange, {}, dict(zip(LINE_COLUMNS, zip(*self._lines, strict=True), strict=True)))
        settle(self._settled, self.now)
        own = [each for each in self._events if each[1].kind == Transaction.Kind.REQUEST and each[1].relayer]
        emit_each([_emission(event, row) for event, row in own])
        for observe in self._observations:
            transaction.on_commit(observe, robust=True)


def _emission(event: TransactionEvent[Any], row: Transaction) -> Emission:
    relayer = row.relayer
    assert relayer is not None

    def data() -> TransactionData:
        shown = transaction_data(row, status_reason(row, row.lane), relayer.identifier, row.lane.address)
        if not isinstance(event, RequestedEvent):
            return shown
        # Without an actor if a release before 0.1.0 recorded the request.
        return TransactionChangeData(**shown, actor=row.action_actor or str(Actor()), reason=row.action_note)

    return Emission(event, relayer.notification, data, row.traceparent)
