"""Recording changes, in the transaction that makes them.

    before = snapshot(relayer)
    ...
    record([changed(relayer, before)])

An audited model has a method `audited`, which returns its fields by the names that API and admin use. Secrets are
`Hidden` there.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from functools import singledispatch
from typing import Any

from django.db import connection, models, transaction
from django.utils import timezone

from relayer_service.audit import actors
from relayer_service.audit.models import AuditEntry, type_of
from relayer_service.audit.values import NOTHING, differences
from relayer_service.database.inserting import insert, insert_both

BATCH_SIZE = 500
# How long repetitions of an action are counted on its entry, and how long the next one remembers that count.
REPEATED_TIME, COUNTED_TIME = timedelta(minutes=1), timedelta(hours=1)

Values = Mapping[str, Any]
Action = AuditEntry.Action


@singledispatch
def snapshot(row: Any) -> Values:
    """Return the current fields of a row, to compare them later."""
    values: Values = row.audited()
    return values


def created(row: models.Model, reason: str = "") -> AuditEntry:
    return _entry(row, Action.CREATED, differences(NOTHING, snapshot(row)), reason)


def changed(row: models.Model, before: Values, after: Values | None = None, reason: str = "") -> AuditEntry | None:
    """Return the entry of a change; None if nothing is different. `after` defaults to the current fields."""
    changes = differences(before, snapshot(row) if after is None else after)
    return _entry(row, Action.CHANGED, changes, reason) if changes else None


def deleted(row: models.Model, reason: str = "") -> AuditEntry:
    """Return the entry of a row that is about to be deleted."""
    return _entry(row, Action.DELETED, differences(snapshot(row), NOTHING), reason)


def acted(row: models.Model, reason: str, before: Values = NOTHING, after: Values = NOTHING) -> AuditEntry:
    """Return the entry of an action that changes no audited fields, with the values that it requests instead."""
    return _entry(row, Action.ACTED, differences(before, after), reason)


def _entry(row: models.Model, action: Action, changes: dict[str, Any], reason: str) -> AuditEntry:
    return AuditEntry(
        # The user of a request is a proxy: `type` would return the proxy's class.
        object_type=type_of(row.__class__),
        object_pk=str(row.pk),
        object_id=str(row)[:255],
        action=action,
        changes=changes,
        reason=reason,
    )


def record(entries: Iterable[AuditEntry | None]) -> None:
    """Save entries in the transaction of their changes, one statement per batch."""
    found = [entry for entry in entries if entry is not None]
    if found:
        _require_transaction()
        who = _who_and_when()
        for entry in found:
            vars(entry).update(who)
        AuditEntry.objects.bulk_create(found, batch_size=BATCH_SIZE)


def record_repeated(row: models.Model, reason: str, cause: str) -> int:
    """Record an action that its actor may repeat any number of times: one entry a minute, with their count.

    `cause` is the part of `reason` that repetitions have in common, and the row is locked. Return how many there were
    since the entry before, with this one; 0 if it is counted on that entry.
    """
    now, actor = timezone.now(), actors.current()
    same = {"actor_kind": actor.kind, "actor": actor.name[:255], "actor_key": actor.key, "reason__contains": cause}
    entries = AuditEntry.objects.for_row(row).filter(action=Action.ACTED, at__gt=now - COUNTED_TIME, **same)
    last = entries.first()
    count = int(last.changes.get("count", 1)) if last else 1
    if last is None or last.at <= now - REPEATED_TIME:
        record([acted(row, reason)])
        return count
    last.changes = {"count": str(count + 1)}
    last.save(update_fields=["changes"])
    return 0


def insert_recorded(row: models.Model, reason: str = "") -> None:
    """Insert a row with its entry: both or neither, even outside a transaction."""
    if connection.vendor == "postgresql":
        entry = created(row, reason)
        vars(entry).update(_who_and_when())
        insert_both(row, entry, "object_pk")
    else:
        with transaction.atomic(savepoint=False):
            row.save(force_insert=True)
            record([created(row, reason)])


def record_same(
    model: type[models.Model],
    rows: Sequence[tuple[Any, str]],
    before: Values = NOTHING,
    after: Values = NOTHING,
    reason: str = "",
) -> None:
    """Record the same change or action for many rows, given as key and name, in one statement."""
    if not rows:
        return
    _require_transaction()
    changes = differences(before, after)
    insert(
        AuditEntry,
        {
            "object_type": type_of(model),
            "action": Action.CHANGED if changes else Action.ACTED,
            "changes": changes,
            "reason": reason,
            **_who_and_when(),
        },
        {"object_pk": [str(key) for key, _ in rows], "object_id": [name[:255] for _, name in rows]},
    )


def _require_transaction() -> None:
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError("Record a change in the transaction that makes it.")


def _who_and_when() -> dict[str, Any]:
    actor = actors.current()
    return {
        "at": timezone.now(),
        "actor_kind": actor.kind,
        "actor": actor.name[:255],
        "actor_key": actor.key,
        "request_id": actor.request_id[:128],
        "address": actor.address[:64],
    }
