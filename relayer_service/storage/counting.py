"""Exact totals and deep pages at any size, counted by database triggers.

Counting a million rows, or skipping half a million, takes as long as reading them. So triggers on each listed table
append `+1` and `-1` for the bucket of 10,000 sequence numbers that a row belongs to, and for the part of 500 in it.
The sum is the exact total in the reader's snapshot; the sums by bucket, and by part within one bucket, locate the
start of a page. Appending takes no lock, so writers never wait for each other; the worker folds the appended rows into
one per bucket and one per part.
"""

from dataclasses import dataclass, replace
from typing import Any

from django.apps import apps
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState as State
from django.db.models import Count, Model, Sum

from relayer_service.models import RowDelta

BUCKET_ROWS = 10_000
PART_ROWS = 500
# The suffix of a table's name under which its parts are counted.
PARTS = ":parts"
LEVELS = (("", BUCKET_ROWS), (PARTS, PART_ROWS))
FOLD_ROWS = 500

# TRUNCATE appends too: the sums must be the same in any snapshot, even while rows are folded.
POSTGRESQL_FUNCTION = """
CREATE OR REPLACE FUNCTION relayer_service_count_rows() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  change integer := CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END;
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    INSERT INTO relayer_service_rowdelta (list_name, bucket, rows)
    SELECT list_name, bucket, -sum(rows) FROM relayer_service_rowdelta
    WHERE list_name IN (TG_TABLE_NAME, TG_TABLE_NAME || '{parts}') GROUP BY list_name, bucket;
  ELSE
    INSERT INTO relayer_service_rowdelta (list_name, bucket, rows)
    SELECT TG_TABLE_NAME, sequence / {bucket}, change * count(*) FROM changed GROUP BY sequence / {bucket}
    UNION ALL
    SELECT TG_TABLE_NAME || '{parts}', sequence / {part}, change * count(*) FROM changed GROUP BY sequence / {part};
  END IF;
  RETURN NULL;
END $$
"""
POSTGRESQL_TRIGGER = """
CREATE OR REPLACE TRIGGER {table}_count_{event} AFTER {event} ON {table}
{rows} FOR EACH STATEMENT EXECUTE FUNCTION relayer_service_count_rows()
"""
SQLITE_TRIGGER = """
CREATE TRIGGER {table}_count_{event} AFTER {event} ON {table} BEGIN
  INSERT INTO relayer_service_rowdelta (list_name, bucket, rows)
  VALUES ('{table}', {row}.sequence / {bucket}, {change}), ('{table}{parts}', {row}.sequence / {part}, {change});
END
"""
# SQLite has no TRUNCATE.
EVENTS = {"postgresql": ("INSERT", "DELETE", "TRUNCATE"), "sqlite": ("INSERT", "DELETE")}
TRIGGER_NAMES = {
    "postgresql": "SELECT tgname FROM pg_trigger WHERE tgrelid = to_regclass(%s) AND tgenabled IN ('O', 'A')",
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = %s",
}
BUCKETS = """
SELECT bucket, sum(there) AS there, sum(counted) AS counted
FROM (
  SELECT sequence / {bucket} AS bucket, count(*) AS there, 0 AS counted FROM {table} GROUP BY sequence / {bucket}
  UNION ALL
  SELECT bucket, 0, sum(rows) FROM relayer_service_rowdelta WHERE list_name = '{table}{level}' GROUP BY bucket
) AS numbers GROUP BY bucket
"""
# One statement, so that rows and counts are read in one snapshot.
REPAIR = """
INSERT INTO relayer_service_rowdelta (list_name, bucket, rows)
SELECT '{table}{level}', bucket, there - counted FROM ({buckets}) AS buckets WHERE there <> counted
"""
COMPARE = """
SELECT coalesce(sum(there), 0), coalesce(sum(counted), 0), coalesce(sum(abs(there - counted)), 0)
FROM ({buckets}) AS buckets
"""


def fold_rows(model: type[Model], column: str, *groups: str) -> None:
    """Replace the rows of each group by one with their sum. Each step is a transaction: sums are always exact."""
    rows = model._default_manager.order_by().values(*groups).annotate(parts=Count("pk")).filter(parts__gt=1)
    for group in rows.values(*groups):
        while _fold_some(model, column, group) == FOLD_ROWS:
            pass


def _fold_some(model: type[Model], column: str, group: dict[str, Any]) -> int:
    manager = model._default_manager
    with transaction.atomic():
        rows = list(manager.filter(**group).select_for_update(skip_locked=True)[:FOLD_ROWS])
        total = sum(getattr(row, column) for row in rows)
        manager.filter(pk__in=[row.pk for row in rows]).delete()
        if total:
            manager.create(**group, **{column: total})
    return len(rows)


def fold() -> None:
    fold_rows(RowDelta, "rows", "list_name", "bucket")


def total(model: type[Model]) -> int | None:
    """Return the number of rows of a model; None if they are not counted."""
    rows: int | None = RowDelta.objects.filter(list_name=model._meta.db_table).aggregate(rows=Sum("rows"))["rows"]
    return rows


@dataclass(frozen=True)
class Comparison:
    """The number of rows of a table, their count, and the sum of the errors of its buckets."""

    rows: int
    counted: int
    wrong: int


def compare(connection: BaseDatabaseWrapper, table: str) -> Comparison:
    levels = []
    with connection.cursor() as cursor:
        for level, rows in LEVELS:
            cursor.execute(COMPARE.format(buckets=_buckets(table, level, rows)))
            levels.append(Comparison(*map(int, cursor.fetchone())))
    return replace(levels[0], wrong=max(each.wrong for each in levels))


def count(connection: BaseDatabaseWrapper, table: str) -> None:
    """Create the missing triggers of a table, and repair its counts."""
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # On SQLite every transaction excludes other writers.
            cursor.execute(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE")
        for statement in [] if is_counted(connection, table) else _triggers(connection.vendor, table):
            cursor.execute(statement)
        for statement in _repairs(table):
            cursor.execute(statement)


def is_counted(connection: BaseDatabaseWrapper, table: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(TRIGGER_NAMES[connection.vendor], [table])
        found = {name.lower() for (name,) in cursor.fetchall()}
    return found >= {f"{table}_count_{event}".lower() for event in EVENTS[connection.vendor]}


def counted_tables(connection: BaseDatabaseWrapper) -> list[str]:
    """Return the tables with a `CountRows` in an applied migration."""
    loader = MigrationLoader(connection)
    models = [
        apps.all_models[migration.app_label].get(operation.model_name.lower())
        for key, migration in loader.disk_migrations.items()
        if key in loader.applied_migrations
        for operation in migration.operations
        if isinstance(operation, CountRows)
    ]
    return sorted({model._meta.db_table for model in models if model})


def uncounted_tables(connection: BaseDatabaseWrapper) -> list[str]:
    """Return the tables that lack a trigger; none while migrations are pending, as they create triggers."""
    loader = MigrationLoader(connection)
    if loader.graph.nodes.keys() - loader.applied_migrations.keys():
        return []
    return [table for table in counted_tables(connection) if not is_counted(connection, table)]


def after_migrate(using: str, plan: Any = None, **kwargs: Any) -> None:
    """Restore the triggers that SQLite drops when it rebuilds a table, and create those that a release adds."""
    # There is no plan after a flush, which on SQLite empties the tables in any order.
    connection = connections[using]
    for table in counted_tables(connection):
        if plan is None or not is_counted(connection, table):
            count(connection, table)


class CountRows(Operation):
    """A migration operation that creates the triggers of a model's table."""

    def __init__(self, model_name: str) -> None:
        self.model_name = model_name

    def state_forwards(self, app_label: str, state: State) -> None: ...

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: State, to_state: State) -> None:
        table = self._table(app_label, to_state)
        for statement in [*_triggers(schema_editor.connection.vendor, table), *_repairs(table)]:
            schema_editor.execute(statement, params=None)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: State, to_state: State) -> None:
        table, vendor = self._table(app_label, from_state), schema_editor.connection.vendor
        for event in EVENTS[vendor]:
            schema_editor.execute(_drop(vendor, table, event), params=None)
        for level, _ in LEVELS:
            schema_editor.execute("DELETE FROM relayer_service_rowdelta WHERE list_name = %s", [table + level])

    def describe(self) -> str:
        return f"Count the rows of {self.model_name}"

    def _table(self, app_label: str, state: State) -> str:
        return str(state.apps.get_model(app_label, self.model_name)._meta.db_table)


def _triggers(vendor: str, table: str) -> list[str]:
    """Return the statements that create or replace the triggers of a table."""
    sizes = {"bucket": BUCKET_ROWS, "part": PART_ROWS, "parts": PARTS}
    statements = [POSTGRESQL_FUNCTION.format(**sizes)] if vendor == "postgresql" else []
    for event in EVENTS[vendor]:
        row, change = ("NEW", 1) if event == "INSERT" else ("OLD", -1)
        if vendor == "postgresql":
            rows = "" if event == "TRUNCATE" else f"REFERENCING {row} TABLE AS changed"
            statements.append(POSTGRESQL_TRIGGER.format(table=table, event=event, rows=rows))
        else:
            create = SQLITE_TRIGGER.format(table=table, event=event, row=row, change=change, **sizes)
            statements += [_drop(vendor, table, event), create]
    return statements


def _drop(vendor: str, table: str, event: str) -> str:
    return f"DROP TRIGGER IF EXISTS {table}_count_{event}" + (f" ON {table}" if vendor == "postgresql" else "")


def _buckets(table: str, level: str, rows: int) -> str:
    return BUCKETS.format(table=table, level=level, bucket=rows)


def _repairs(table: str) -> list[str]:
    return [REPAIR.format(table=table, level=level, buckets=_buckets(table, level, rows)) for level, rows in LEVELS]
