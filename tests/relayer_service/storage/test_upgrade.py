"""A database of the oldest schema with a row in every table: forwards to this one, and back."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor

from notifications.models import SkippedEventCount
from relayer_service.storage import counting
from relayer_service.storage.counting import Comparison
from tests import databases

pytestmark = pytest.mark.both_engines

OLDEST = [
    ("relayer_service", "0001_initial"),
    ("tokens", "0001_initial"),
    ("signers", "0001_initial"),
    ("notifications", "0001_initial"),
    ("relayers", "0001_initial"),
    ("rpc", "0001_initial"),
]
LISTED = ["relayers_relayer", "signers_signer"]
TABLE = "signers_signer"
TRIGGERS = {
    "sqlite": "SELECT count(*) FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": "SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal",
}


def triggers(connection: BaseDatabaseWrapper) -> int:
    with connection.cursor() as cursor:
        cursor.execute(TRIGGERS[connection.vendor])
        found: int = cursor.fetchone()[0]
        return found


def counts(connection: BaseDatabaseWrapper) -> list[Comparison]:
    return [counting.compare(connection, table) for table in LISTED]


@pytest.mark.django_db(transaction=True)
def test_the_count_of_skipped_events_moves_to_its_own_table_and_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration = import_module("notifications.migrations.0004_skipped_event_count")
    monkeypatch.setattr(migration, "BATCH_SIZE", 2)
    before, after = (("notifications", name) for name in ("0003_delivery_request_id", "0004_skipped_event_count"))
    kept = [(TABLE, 1, 5), *((migration.LIST_NAME, target, events) for target, events in [(1, 2), (1, 3), (2, 4)])]
    with databases.empty("counted", tmp_path) as alias:
        old = MigrationExecutor(connections[alias]).migrate([before]).apps
        deltas = old.get_model("relayer_service", "RowDelta").objects.using(alias)
        for list_name, bucket, rows in kept:
            deltas.create(list_name=list_name, bucket=bucket, rows=rows)
        MigrationExecutor(connections[alias]).migrate([after])
        counts = SkippedEventCount.objects.using(alias).order_by("pk")
        assert list(counts.values_list("target", "events")) == [(1, 2), (1, 3), (2, 4)]
        assert list(deltas.values_list("list_name", "bucket", "rows")) == kept[:1]
        MigrationExecutor(connections[alias]).migrate([before])
        assert list(deltas.order_by("pk").values_list("list_name", "bucket", "rows")) == kept


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_a_filled_database_of_the_oldest_schema_goes_forwards_and_back(tmp_path: Path) -> None:
    with databases.empty("upgraded", tmp_path) as alias:
        connection = connections[alias]
        executor = MigrationExecutor(connection)
        old = executor.migrate([*OLDEST, ("auth", "0012_alter_user_first_name_max_length")]).apps
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                # Its release did not count TRUNCATE.
                for table in LISTED:
                    cursor.execute(f"DROP TRIGGER {table}_count_TRUNCATE ON {table}")
        databases.fill(old, alias)
        before = databases.rows(old, alias)
        assert [label for label, rows in before.items() if not rows] == []

        call_command("migrate", database=alias, verbosity=0)
        assert [counting.is_counted(connection, table) for table in LISTED] == [True, True]
        assert counts(connection) == [Comparison(1, 1, 0)] * 2
        assert databases.secrets(apps, alias) == databases.SECRETS

        MigrationExecutor(connection).migrate(OLDEST)
        assert databases.rows(old, alias) == before
        assert counts(connection) == [Comparison(1, 1, 0)] * 2

        call_command("migrate", "relayer_service", "zero", database=alias, verbosity=0)
        assert triggers(connection) == 0
