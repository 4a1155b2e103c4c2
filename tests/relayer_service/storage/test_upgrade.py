"""The migrations of this release, forwards and back, with a row in every table."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder

from relayer_service.storage import counting
from relayer_service.storage.counting import Comparison
from tests import databases

pytestmark = pytest.mark.both_engines

FIRST = [
    ("relayer_service", "0001_squashed_0020_audit_log_entries"),
    ("tokens", "0001_squashed_0012_revoke_permission"),
    ("signers", "0001_squashed_0006_sorted_lists"),
    ("notifications", "0001_squashed_0018_chart_of_a_webhook"),
    ("relayers", "0001_squashed_0034_tags"),
    ("rpc", "0001_squashed_0009_move_call_counts"),
]
LISTED = ["relayers_relayer", "signers_signer"]
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


@pytest.mark.django_db
def test_a_database_of_an_earlier_release_is_refused() -> None:
    MigrationRecorder(connection).record_unapplied("relayers", "0034_tags")
    with pytest.raises(CommandError, match=r"lacks relayers\.0034_tags, .* Run `migrate` of release 0\.1\.0 first\.$"):
        call_command("migrate", verbosity=0)


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_a_filled_database_goes_forwards_and_back(tmp_path: Path) -> None:
    with databases.empty("upgraded", tmp_path) as alias:
        connection = connections[alias]
        first = MigrationExecutor(connection).migrate([*FIRST, ("auth", "0012_alter_user_first_name_max_length")]).apps
        databases.fill(first, alias)
        before = databases.rows(first, alias)

        call_command("migrate", database=alias, verbosity=0)
        assert [counting.is_counted(connection, table) for table in LISTED] == [True, True]
        assert counts(connection) == [Comparison(1, 1, 0)] * 2
        assert databases.secrets(apps, alias) == databases.SECRETS

        MigrationExecutor(connection).migrate(FIRST)
        assert databases.rows(first, alias) == before
        assert counts(connection) == [Comparison(1, 1, 0)] * 2

        call_command("migrate", "relayer_service", "zero", database=alias, verbosity=0)
        assert triggers(connection) == 0
