"""Totals and pages that the database keeps: exact whoever writes, and whatever the size."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection, connections, transaction

from incidents.models import AlertRoute
from relayer_service.api import page_sql
from relayer_service.models import RowDelta
from relayer_service.storage import counting
from relayer_service.storage.resources import Resource
from signers.models import Signer
from transactions.models import Transaction

pytestmark = pytest.mark.both_engines

TABLE = "signers_signer"


def make(count: int, prefix: str = "s") -> None:
    signers = [Signer(identifier=f"{prefix}{n}", type="plain", secrets={}) for n in range(count)]
    Signer.objects.bulk_create(signers)


def total() -> int:
    return page_sql.table_page(Signer.objects.all(), ("identifier",), 0, 0)[0]


@pytest.mark.django_db
def test_the_database_counts_every_resource_that_is_listed() -> None:
    # Transactions are listed by relayer, with totals that stop at a limit; alert routes are few.
    others = {Transaction, AlertRoute}
    listed = [model for model in apps.get_models() if issubclass(model, Resource) and model not in others]
    assert counting.counted_tables(connection) == sorted(model._meta.db_table for model in listed)


@pytest.mark.django_db(transaction=True)
def test_the_total_follows_every_kind_of_write() -> None:
    make(3)
    Signer.objects.create(identifier="x", type="plain", secrets={})
    assert total() == 4
    Signer.objects.get(identifier="s0").delete()
    assert total() == 3
    Signer.objects.filter(identifier__in=["s1", "s2"]).delete()
    assert total() == 1
    with transaction.atomic():
        make(5, "t")
        transaction.set_rollback(True)
    assert total() == 1
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM signers_signer" if connection.vendor == "sqlite" else "TRUNCATE signers_signer CASCADE"
        )
    assert total() == 0
    make(3)
    call_command("flush", interactive=False, verbosity=0)
    make(1)
    assert total() == 1


@pytest.mark.django_db
def test_every_page_of_a_list_with_many_buckets_and_holes_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are spread over buckets by moving their sequence, so that pages cross their borders."""
    monkeypatch.setattr(counting, "FOLD_ROWS", 4)
    numbers = random.Random(7).sample(range(1, 20 * counting.BUCKET_ROWS), 300)
    Signer.objects.bulk_create(
        [Signer(sequence=n, identifier=str(n), type="plain", secrets={}) for n in sorted(numbers)]
    )
    Signer.objects.filter(sequence__in=numbers[:40]).delete()
    deltas = RowDelta.objects.filter(list_name=TABLE).values_list("bucket", flat=True)
    assert (total(), len(deltas) > len(set(deltas))) == (260, True)
    counting.fold()
    # One row a bucket.
    assert len(deltas.all()) == len(set(deltas.all()))
    expected = [str(n) for n in sorted(numbers[40:])]
    for per_page in (1, 7, 1000):
        seen: list[str] = []
        for offset in range(0, len(expected) + 2 * per_page, per_page):
            count, rows = page_sql.table_page(Signer.objects.all(), ("identifier",), offset, per_page)
            assert count == len(expected)
            seen += [row[0] for row in rows]
        assert seen == expected


@pytest.mark.django_db(transaction=True)
def test_the_total_is_exact_while_many_write_and_fold() -> None:
    make(10)
    stop = threading.Event()
    failures: list[int] = []

    def work(worker: int) -> None:
        try:
            for n in range(15):
                Signer.objects.create(identifier=f"w{worker}-{n}", type="plain", secrets={})
                if n % 3 == 0:
                    Signer.objects.get(identifier=f"w{worker}-{n}").delete()
        finally:
            connections.close_all()

    def watch() -> None:
        try:
            while not stop.is_set():
                # One statement reads both in one snapshot.
                with connection.cursor() as cursor:
                    cursor.execute(
                        "SELECT (SELECT count(*) FROM signers_signer), "
                        "(SELECT sum(rows) FROM relayer_service_rowdelta WHERE list_name = %s)",
                        [TABLE],
                    )
                    counted, kept = cursor.fetchone()
                    if counted != kept:
                        failures.append(counted - kept)
                counting.fold()
        finally:
            connections.close_all()

    watcher = threading.Thread(target=watch)
    watcher.start()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    stop.set()
    watcher.join()
    assert failures == []
    assert total() == Signer.objects.count() == 10 + 4 * 10
