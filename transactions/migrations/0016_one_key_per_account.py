"""Keep an idempotency key on the oldest of the transactions of an account that have it.

A relayer that was deleted and created again could accept the same key twice. The others lose it: each is printed, and
has an audit entry with the key.
"""

from collections.abc import Iterator
from typing import Any

from django.db import migrations
from django.db.models import Count
from django.utils import timezone

from relayer_service.database.operations import session_settings

REASON = "Its idempotency key {} was removed: the older transaction {} of the account has it."
BATCH_SIZE = 500


def remove_duplicates(apps: Any, schema_editor: Any) -> None:
    alias = schema_editor.connection.alias
    entries = apps.get_model("relayer_service", "AuditEntry")
    rows = apps.get_model("transactions", "Transaction")._base_manager.using(alias)
    # It reads the whole table.
    with session_settings(schema_editor.connection, statement_timeout="0"):
        found = list(duplicates(rows))
    for start in range(0, len(found), BATCH_SIZE):
        batch = found[start : start + BATCH_SIZE]
        entries._base_manager.using(alias).bulk_create(entry(entries, row, older) for row, older in batch)
        rows.filter(pk__in=[row.pk for row, _ in batch]).update(idempotency_key=None)
    for row, older in found:
        print(f"\n    Transaction {row.identifier}: {REASON.format(repr(row.idempotency_key), older.identifier)}", end="")


def duplicates(rows: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each transaction that loses its key, with the one that keeps it."""
    with_key = rows.filter(idempotency_key__isnull=False)
    groups = with_key.order_by().values_list("lane", "idempotency_key").annotate(count=Count("pk")).filter(count__gt=1)
    for lane, key, _ in groups:
        same = with_key.filter(lane=lane, idempotency_key=key).order_by("sequence")
        oldest, *others = same.only("identifier", "idempotency_key")
        yield from ((other, oldest) for other in others)


def entry(entries: Any, row: Any, older: Any) -> Any:
    return entries(
        at=timezone.now(),
        object_type="transaction",
        object_pk=str(row.pk),
        object_id=row.identifier,
        action="acted",
        actor_kind="command",
        actor="migrate",
        reason=REASON.format(repr(row.idempotency_key), older.identifier),
    )


class Migration(migrations.Migration):

    dependencies = [
        ('relayer_service', '0011_worker_processes'),
        ('transactions', '0015_lane_generation'),
    ]

    operations = [
        migrations.RunPython(remove_duplicates, migrations.RunPython.noop),
    ]
