"""Counts that were lost or are wrong: how they are found and repaired."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import StringIO

import pytest
from django.apps import apps
from django.core.checks import Tags, run_checks
from django.core.management import CommandError, call_command
from django.db import connection, connections, models, transaction
from django.db.migrations.recorder import MigrationRecorder
from django.db.migrations.state import ProjectState

from relayer_service.models import RowDelta
from relayer_service.storage import counting
from relayer_service.storage.counting import Comparison, CountRows
from tests.sample.models import Item

pytestmark = pytest.mark.both_engines

TABLE = "sample_item"
LISTS = {"notifications_notification", "relayers_relayer", "signers_signer"}
RIGHT = ": 0 rows, 0 counted"


def make(count: int) -> None:
    Item.objects.bulk_create([Item(name="item") for _ in range(count)])


def drop_trigger() -> None:
    """Let a trigger count no longer; PostgreSQL can also keep one for replicas alone, which is as good as none."""
    trigger = f"{TABLE}_count_insert"
    on_postgresql = connection.vendor == "postgresql"
    with connection.cursor() as cursor:
        cursor.execute(
            f"ALTER TABLE {TABLE} ENABLE REPLICA TRIGGER {trigger}" if on_postgresql else f"DROP TRIGGER {trigger}"
        )


def recount(**options: bool) -> str:
    """Return what is reported of the sample's table; the others are right."""
    output = StringIO()
    call_command("recount", stdout=output, **options)
    lines = output.getvalue().splitlines()
    right = {line.removesuffix(RIGHT) for line in lines if line.endswith(RIGHT)}
    (shown,) = [line for line in lines if not line.endswith(RIGHT)]
    assert right >= LISTS
    return shown


def compared() -> Comparison:
    return counting.compare(connection, TABLE)


@pytest.mark.django_db
def test_recount_reports_the_rows_and_repairs_the_counts() -> None:
    make(3)
    RowDelta.objects.create(list_name=TABLE, bucket=0, rows=2)
    RowDelta.objects.create(list_name=TABLE, bucket=9, rows=-4)
    assert recount() == "sample_item: 3 rows, 1 counted, wrong by 6, repaired"
    assert recount() == "sample_item: 3 rows, 3 counted"
    drop_trigger()
    make(2)
    assert recount() == "sample_item: 5 rows, 3 counted, wrong by 2, a trigger is missing, repaired"
    make(1)
    assert recount() == "sample_item: 6 rows, 6 counted"


@pytest.mark.django_db
def test_a_check_of_the_counts_changes_nothing_and_fails() -> None:
    make(2)
    RowDelta.objects.filter(list_name=TABLE).delete()
    with pytest.raises(CommandError) as caught:
        recount(check=True)
    assert str(caught.value) == "Wrong row counts: sample_item. Run `manage.py recount` to repair them."
    assert compared() == Comparison(rows=2, counted=0, wrong=2)


def findings() -> list[tuple[str, str | None, str | None]]:
    messages = run_checks(tags=[Tags.database], databases=["default"])
    return [(message.msg, message.hint, message.id) for message in messages]


@pytest.mark.django_db
def test_a_system_check_names_a_table_without_its_trigger() -> None:
    assert findings() == []
    drop_trigger()
    assert findings() == [
        (
            "The rows of sample_item are not counted: a trigger is missing.",
            "Run `manage.py recount` to recreate it and repair the count.",
            "relayer_service.W005",
        )
    ]
    # While migrations are pending, none is missing.
    MigrationRecorder(connection).record_unapplied("signers", "0007_search_by_parts")
    assert findings() == []


def repair_concurrently(change: Callable[[], None]) -> None:
    """Repair over another connection while a change of this one is made and not committed."""

    def repair() -> None:
        try:
            counting.count(connection, TABLE)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            change()
            repaired = pool.submit(repair)
            while connection.vendor == "postgresql" and not (repaired.done() or somebody_waits()):
                time.sleep(0.01)
        repaired.result()


def somebody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE relation = %s::regclass AND NOT granted", [TABLE])
        return bool(cursor.fetchone()[0])


@pytest.mark.django_db(transaction=True)
def test_a_repair_loses_no_row_of_a_concurrent_write() -> None:
    drop_trigger()
    repair_concurrently(lambda: make(2))
    make(1)
    assert compared() == Comparison(rows=3, counted=3, wrong=0)


@pytest.mark.django_db(transaction=True)
def test_two_concurrent_repairs_repair_once() -> None:
    make(1)
    RowDelta.objects.create(list_name=TABLE, bucket=0, rows=5)
    repair_concurrently(lambda: counting.count(connection, TABLE))
    assert compared() == Comparison(rows=1, counted=1, wrong=0)


@pytest.mark.django_db(transaction=True)
def test_counting_again_seeds_from_the_rows_that_are_there() -> None:
    make(3)
    RowDelta.objects.all().delete()
    state = ProjectState.from_apps(apps)
    for _ in range(2):
        with connection.schema_editor() as editor:
            CountRows("Item").database_forwards("sample", editor, state, state)
    make(1)
    assert compared() == Comparison(rows=4, counted=4, wrong=0)


@pytest.mark.django_db(transaction=True)
def test_a_table_that_a_migration_makes_anew_is_still_counted() -> None:
    """SQLite makes a table anew to change a column, and drops its triggers with the old one."""
    make(1)
    old, new = Item._meta.get_field("name"), models.TextField(null=True)
    new.set_attributes_from_name("name")
    new.model = Item
    try:
        with connection.schema_editor() as editor:
            editor.alter_field(Item, old, new)
        make(1)
    finally:
        with connection.schema_editor() as editor:
            editor.alter_field(Item, new, old)
        call_command("migrate", verbosity=0)
    make(1)
    assert compared() == Comparison(rows=3, counted=3, wrong=0)
