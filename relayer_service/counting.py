"""Exact totals and deep pages at any size, kept by the database itself.

Counting a million rows, or skipping half a million, takes as long as reading them. So triggers on each listed table
append `+1` and `-1` for the bucket of 10,000 sequence numbers that a row belongs to. The sum is the exact total in
the reader's own snapshot, whoever wrote the rows; the sums by bucket tell where a page begins. Appending takes no
lock, so writers never wait for each other; the worker folds what was appended into one row a bucket.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import Count

from relayer_service.models import RowDelta

BUCKET_ROWS = 10_000

POSTGRESQL_FUNCTION = """
CREATE OR REPLACE FUNCTION relayer_service_count_rows() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  change integer := CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END;
BEGIN
  INSERT INTO relayer_service_rowdelta (list_name, bucket, rows)
  SELECT TG_TABLE_NAME, sequence / {bucket}, change * count(*) FROM changed GROUP BY sequence / {bucket};
  RETURN NULL;
END $$
"""
POSTGRESQL_TRIGGER = """
CREATE TRIGGER {table}_count_{event} AFTER {event} ON {table}
REFERENCING {rows} TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION relayer_service_count_rows()
"""
SQLITE_TRIGGER = """
CREATE TRIGGER {table}_count_{event} AFTER {event} ON {table} BEGIN
  INSERT INTO relayer_service_rowdelta (list_name, bucket, rows)
  VALUES ('{table}', {row}.sequence / {bucket}, {change});
END
"""
# Takes the table's name, the offset, the number of rows and the offset again. The rows of the page are chosen by
# their numbers alone, so that nothing is read of those that are skipped, nor of what they refer to.
PAGE = """
WITH buckets AS (SELECT bucket, sum(rows) AS n FROM relayer_service_rowdelta WHERE list_name = %s GROUP BY bucket),
     ends AS (SELECT bucket, n, sum(n) OVER (ORDER BY bucket) AS upto FROM buckets),
     place AS (SELECT bucket, upto - n AS before FROM ends WHERE upto > %s ORDER BY bucket LIMIT 1),
     chosen AS (
       SELECT sequence FROM {table} WHERE sequence >= (SELECT bucket FROM place) * {bucket_rows}
       ORDER BY sequence LIMIT %s OFFSET %s - coalesce((SELECT before FROM place), 0)
     )
SELECT total, page.*
FROM (SELECT coalesce(sum(n), 0) AS total FROM buckets) AS totals
LEFT JOIN ({rows}) AS page ON TRUE
ORDER BY page.sequence
"""
CHOSEN = "SELECT sequence FROM chosen"
FOLD_ROWS = 500


def fold() -> None:
    """Replace what was appended by its sums. Each step is one transaction: readers see the one or the other."""
    groups = RowDelta.objects.values("list_name", "bucket").annotate(parts=Count("id")).filter(parts__gt=1)
    for group in groups.order_by().values("list_name", "bucket"):
        while _fold_some(**group) == FOLD_ROWS:
            pass


def _fold_some(list_name: str, bucket: int) -> int:
    with transaction.atomic():
        rows = RowDelta.objects.filter(list_name=list_name, bucket=bucket).select_for_update(skip_locked=True)
        deltas = list(rows[:FOLD_ROWS])
        total = sum(delta.rows for delta in deltas)
        RowDelta.objects.filter(pk__in=[delta.pk for delta in deltas]).delete()
        if total:
            RowDelta.objects.create(list_name=list_name, bucket=bucket, rows=total)
    return len(deltas)


class CountRows(Operation):
    """A migration's operation that has the database count the rows of a model's table."""

    reduces_to_sql = True
    reversible = True

    def __init__(self, model_name: str) -> None:
        self.model_name = model_name

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Triggers are no part of the models."""

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        table = self._table(app_label, to_state)
        on_postgresql = schema_editor.connection.vendor == "postgresql"
        if on_postgresql:
            schema_editor.execute(POSTGRESQL_FUNCTION.format(bucket=BUCKET_ROWS), params=None)
        for event, row, change in (("INSERT", "NEW", 1), ("DELETE", "OLD", -1)):
            if on_postgresql:
                schema_editor.execute(POSTGRESQL_TRIGGER.format(table=table, event=event, rows=row), params=None)
            else:
                schema_editor.execute(
                    SQLITE_TRIGGER.format(table=table, event=event, row=row, change=change, bucket=BUCKET_ROWS),
                    params=None,
                )

    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        table = self._table(app_label, from_state)
        for event in ("INSERT", "DELETE"):
            on_table = f" ON {table}" if schema_editor.connection.vendor == "postgresql" else ""
            schema_editor.execute(f"DROP TRIGGER {table}_count_{event}{on_table}", params=None)
        schema_editor.execute("DELETE FROM relayer_service_rowdelta WHERE list_name = %s", [table])

    def describe(self) -> str:
        return f"Count the rows of {self.model_name}"

    @property
    def migration_name_fragment(self) -> str:
        return f"count_{self.model_name.lower()}"

    def _table(self, app_label: str, state: ProjectState) -> str:
        table: str = state.apps.get_model(app_label, self.model_name)._meta.db_table
        return table

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        return type(self).__name__, [self.model_name], {}
