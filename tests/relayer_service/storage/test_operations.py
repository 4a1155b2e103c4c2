"""Migration operations for large tables: concurrent, repeatable, and plain on SQLite."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.db import IntegrityError, connection, connections
from django.db.migrations import Migration
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import CheckConstraint, F, Index, Q, UniqueConstraint

from relayer_service.database.operations import (
    AddConstraintNotValid,
    AddIndexConcurrently,
    AddUniqueIndexConcurrently,
    RemoveIndexConcurrently,
    ValidateConstraint,
)
from tests import processes
from tests.concurrency import wait_until
from tests.sample.models import Item

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_engines]

TABLE = "sample_item"
INDEX = Index(F("name"), F("sequence"), name="item_by_name")
CHECK = CheckConstraint(condition=~Q(name="bad"), name="item_not_bad")
UNIQUE = UniqueConstraint(fields=["name"], condition=~Q(name=""), name=INDEX.name)
SQLITE_INDEXES = "SELECT name, 1 FROM sqlite_master WHERE type = 'index' AND tbl_name = 'sample_item'"
POSTGRESQL_INDEXES = (
    "SELECT indexrelid::regclass::text, indisvalid::int FROM pg_index WHERE indrelid = 'sample_item'::regclass"
)


@pytest.fixture(autouse=True)
def same_table_after() -> Iterator[None]:
    yield
    with connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX IF EXISTS {INDEX.name}")


def migration(*operations: Operation) -> Migration:
    made: type[Migration] = type("Apart", (Migration,), {"operations": operations, "atomic": False})
    return made("test", "sample")


def apply(*operations: Operation, state: ProjectState | None = None) -> ProjectState:
    """Run operations as `migrate` does, and return the state of the models after them."""
    with connection.schema_editor(atomic=False) as editor:
        return migration(*operations).apply(state.clone() if state else ProjectState.from_apps(apps), editor)


def unapply(*operations: Operation, state: ProjectState | None = None) -> None:
    with connection.schema_editor(atomic=False) as editor:
        migration(*operations).unapply(state or ProjectState.from_apps(apps), editor)


def index_state() -> int | None:
    """Return 1 for an index that can be used, 0 for one whose build was interrupted, None without any."""
    with connection.cursor() as cursor:
        cursor.execute(SQLITE_INDEXES if connection.vendor == "sqlite" else POSTGRESQL_INDEXES)
        found: int | None = dict(cursor.fetchall()).get(INDEX.name)
        return found


def waiting() -> bool:
    """Return whether a build waits for a transaction that is older."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'virtualxid' AND NOT granted")
        return bool(cursor.fetchone()[0])


def session_settings() -> Any:
    if connection.vendor == "sqlite":
        return "none"
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('lock_timeout'), current_setting('statement_timeout')")
        return cursor.fetchone()


def test_an_index_is_added_and_removed_in_both_directions_also_again() -> None:
    before = session_settings()
    for _ in range(2):
        state = apply(AddIndexConcurrently("Item", INDEX))
        assert (index_state(), session_settings()) == (1, before)
    for _ in range(2):
        apply(RemoveIndexConcurrently("Item", INDEX.name), state=state)
        assert index_state() is None
    unapply(RemoveIndexConcurrently("Item", INDEX.name), state=state)
    assert index_state() == 1
    unapply(AddIndexConcurrently("Item", INDEX))
    assert index_state() is None
    assert before != ("10min", "0")


def test_a_unique_index_is_added_again_once_duplicates_are_gone() -> None:
    twice = [Item.objects.create(name="same") for _ in range(2)]
    with pytest.raises(IntegrityError):
        apply(AddUniqueIndexConcurrently("Item", UNIQUE))
    twice[1].delete()
    for _ in range(2):
        apply(AddUniqueIndexConcurrently("Item", UNIQUE))
        assert index_state() == 1
    with pytest.raises(IntegrityError):
        Item.objects.create(name="same")
    unapply(AddUniqueIndexConcurrently("Item", UNIQUE))
    assert index_state() is None


def in_thread(operation: Operation, **settings: str) -> None:
    try:
        with connection.cursor() as cursor:
            for name, value in settings.items():
                cursor.execute(f"SET {name} = '{value}'")
        apply(operation)
        with connection.cursor() as cursor:
            for name in settings:
                # The connection returns to the pool, where the next test finds it.
                cursor.execute(f"RESET {name}")
    finally:
        connections.close_all()


@pytest.mark.postgresql
def test_a_build_keeps_no_writer_waiting() -> None:
    with psycopg.connect(processes.database_url()) as older, ThreadPoolExecutor(1) as pool:
        older.execute(f"LOCK TABLE {TABLE} IN ROW EXCLUSIVE MODE")
        # Longer than any request may wait, as nobody waits for the build.
        built = pool.submit(in_thread, AddIndexConcurrently("Item", INDEX), lock_timeout="1ms", statement_timeout="1s")
        wait_until(lambda: waiting() or built.done())
        Item.objects.create(name="meanwhile")
        assert not built.done()
        older.rollback()
        built.result()
    assert index_state() == 1


@pytest.mark.postgresql
def test_what_an_interrupted_build_left_is_built_again() -> None:
    with psycopg.connect(processes.database_url()) as older, ThreadPoolExecutor(1) as pool:
        older.execute(f"LOCK TABLE {TABLE} IN ROW EXCLUSIVE MODE")
        built = pool.submit(in_thread, AddIndexConcurrently("Item", INDEX))
        wait_until(lambda: waiting() or built.done())
        older.execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONC%'")
        assert "canceling statement" in str(built.exception())
    assert index_state() == 0
    apply(AddIndexConcurrently("Item", INDEX))
    assert index_state() == 1


def test_a_check_holds_for_new_rows_at_once_and_for_all_once_validated() -> None:
    old = Item.objects.create(name="bad" if connection.vendor == "postgresql" else "good")
    state = apply(AddConstraintNotValid("Item", CHECK))
    try:
        with pytest.raises(IntegrityError):
            Item.objects.create(name="bad")
        if connection.vendor == "postgresql":
            with pytest.raises(IntegrityError):
                apply(ValidateConstraint("Item", CHECK.name), state=state)
        Item.objects.filter(pk=old.pk).update(name="good")
        apply(ValidateConstraint("Item", CHECK.name), state=state)
    finally:
        unapply(AddConstraintNotValid("Item", CHECK))
    Item.objects.create(name="bad")
