"""`manage.py migrate` beside transactions that hold the tables."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import OperationalError, connections
from django.db.migrations.recorder import MigrationRecorder

from relayer_service.management.commands import migrate
from tests import databases, processes

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_engines]

TABLE = "transactions_transaction"
APPLIED = ["0001_squashed_0037_index_of_limits", "0031_metadata_pairs"]


@contextmanager
def first_release(folder: Path) -> Iterator[str]:
    """Name a database in which migrations of transactions are pending."""
    with databases.empty("locked", folder) as alias:
        call_command("migrate", "transactions", "0031", database=alias, verbosity=0)
        yield alias


@contextmanager
def reading(alias: str) -> Iterator[psycopg.Connection[Any]]:
    """Open a transaction that has read the table."""
    with psycopg.connect(processes.database_url(alias)) as reader:
        reader.execute(f"SELECT count(*) FROM {TABLE}")
        yield reader


def applied(alias: str) -> list[str]:
    found = MigrationRecorder(connections[alias]).applied_migrations()
    return sorted(name for app, name in found if app == "transactions" and name in {*APPLIED, "0038_final_status"})


def timeouts(alias: str) -> Any:
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT current_setting('lock_timeout'), current_setting('statement_timeout')")
        return cursor.fetchone()


@pytest.mark.postgresql
def test_a_migration_gives_way_to_a_transaction_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with first_release(tmp_path) as alias, reading(alias) as reader:
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            assert (applied(alias), timeouts(alias)) == (APPLIED, ("500ms", "0"))
            # Nobody waits behind it meanwhile: this lock is the strongest that a request takes.
            reader.execute(f"LOCK TABLE {TABLE} IN ROW EXCLUSIVE MODE NOWAIT")
            if len(pauses) == 2:
                reader.rollback()

        monkeypatch.setattr("relayer_service.management.commands.migrate.time.sleep", pause)
        before = timeouts(alias)
        call_command("migrate", "transactions", database=alias, verbosity=0)
        assert len(pauses) == 2
        assert applied(alias) == [*APPLIED, "0038_final_status"]
        assert timeouts(alias) == before != ("500ms", "0")


@pytest.mark.postgresql
def test_a_foreign_key_that_gets_no_lock_is_added_by_the_next_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Django adds it after the migration, outside of the block that rolls back."""
    with databases.empty("locked", tmp_path) as alias:
        call_command("migrate", "relayers", database=alias, verbosity=0)
        with psycopg.connect(processes.database_url(alias)) as writer:
            writer.execute("LOCK TABLE relayers_relayer IN ROW EXCLUSIVE MODE")

            def pause(seconds: float) -> None:
                assert timeouts(alias) == ("500ms", "0")
                writer.rollback()

            monkeypatch.setattr("relayer_service.management.commands.migrate.time.sleep", pause)
            before = timeouts(alias)
            call_command("migrate", "transactions", "0001", database=alias, verbosity=0)
        assert ("transactions", APPLIED[0]) in MigrationRecorder(connections[alias]).applied_migrations()
        assert timeouts(alias) == before


@pytest.mark.postgresql
def test_a_migration_that_gets_no_lock_for_long_fails_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "RETRY_SECONDS", 0)
    with first_release(tmp_path) as alias, reading(alias):
        before = timeouts(alias)
        with pytest.raises(OperationalError, match="lock timeout"):
            call_command("migrate", "transactions", database=alias, verbosity=0)
        assert applied(alias) == APPLIED
        assert timeouts(alias) == before


@pytest.mark.postgresql
def test_a_migration_of_a_vacuumed_table_waits_until_autovacuum_is_canceled(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def handle(command: migrate.Command, **_: Any) -> None:
        seen.append(timeouts("default")[0])
        if len(seen) == 1:
            raise OperationalError("lock timeout") from psycopg.errors.LockNotAvailable()

    monkeypatch.setattr("django.core.management.commands.migrate.Command.handle", handle)
    monkeypatch.setattr(migrate, "PAUSE_SECONDS", 0)
    with psycopg.connect(processes.database_url("default")) as vacuum:
        vacuum.execute(f"LOCK TABLE {TABLE} IN SHARE UPDATE EXCLUSIVE MODE")
        call_command("migrate", verbosity=0, plan=True)
    # `deadlock_timeout` is one second by default.
    assert seen == ["500ms", "1500ms"]


def test_the_time_for_retries_is_that_of_one_migration(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(0, 10_000, migrate.RETRY_SECONDS))
    monkeypatch.setattr(migrate, "time", SimpleNamespace(monotonic=lambda: next(seconds), sleep=lambda _: None))
    progress = ["apply_success", "apply_success", "render_success"]

    def handle(command: migrate.Command, **_: Any) -> None:
        command.migration_progress_callback(progress.pop(0))
        raise OperationalError("lock timeout") from psycopg.errors.LockNotAvailable()

    monkeypatch.setattr("django.core.management.commands.migrate.Command.handle", handle)
    monkeypatch.setattr("django.core.management.commands.migrate.Command.migration_progress_callback", lambda *_: None)
    with pytest.raises(OperationalError, match="lock timeout"):
        call_command("migrate", verbosity=0)
    assert progress == []
