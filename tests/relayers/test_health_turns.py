"""When relayers are checked and by which worker, and the results under concurrent writes."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chain.nodes import attempts, failover
from notifications.models import Delivery
from relayer_service.background import pools
from relayer_service.background.tasks import queue
from relayers.health import checking
from relayers.health.checking import AccountReading, check_due
from relayers.models import Relayer, RelayerHealth
from relayers.tasks import check_relayers_now, check_soon
from tests.chain import faults
from tests.chain.faults import good, node
from tests.concurrency import PATIENCE_SECONDS, in_threads, wait_until
from tests.notifications.clock import NOON, Clock
from tests.relayers import factories
from tests.relayers.health_checks import NO_REASON, OTHER_ADDRESS, UNREAD, bodies, make_due, on_nodes, state

pytestmark = pytest.mark.both_engines

LEASE = uuid.UUID(int=1)


@pytest.mark.django_db
def test_relayers_on_the_same_nodes_are_read_and_written_together(hardhat: str) -> None:
    with node(good, hardhat) as one, node(good, hardhat) as other:
        for number in range(60):
            on_nodes(one.url if number % 6 else other.url, identifier=f"relayer-{number}")
        assert check_due() == 60
        # Two calls for each; the chain ID is read until a node has reported it.
        assert [len(asked) - asked.count("eth_chainId") for asked in one.methods] == [50, 50]
        assert [len(asked) - asked.count("eth_chainId") for asked in other.methods] == [20]
        assert set(RelayerHealth.objects.values_list("nonce", flat=True)) == {0}
        # Of those on the same nodes that find nothing new: a statement to take them, and one to write them back.
        RelayerHealth.objects.filter(relayer__identifier__in=[f"relayer-{number}" for number in range(1, 6)]).update(
            due_at=timezone.now() - timedelta(seconds=1)
        )
        with CaptureQueriesContext(connection) as queries:
            assert check_due() == 5
    assert len([query for query in queries if query["sql"].startswith("UPDATE")]) == 2


@pytest.mark.django_db
def test_an_edit_by_staff_during_the_check_is_not_overwritten(hardhat: str) -> None:
    relayer = on_nodes(hardhat)

    def edit(handler: faults.Handler, asked: Any) -> None:
        edited.set()
        written.wait(PATIENCE_SECONDS)
        good(handler, asked)

    edited, written = threading.Event(), threading.Event()
    with node(edit, hardhat) as one:
        relayer.set_rpc_urls([{"url": one.url, "weight": 1}])
        relayer.save()
        (taken,) = RelayerHealth.objects.select_related("relayer").claim(1, timedelta(minutes=1))
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(checking.read, [taken])
            assert edited.wait(PATIENCE_SECONDS)
            other = factories.notification()
            Relayer.objects.update(name="Another name", paused=True, notification=other, policies={"min_balance": 1})
            written.set()
            checking.write(reading.result())
    row = Relayer.objects.get()
    assert (row.name, row.paused, row.notification, row.policies) == ("Another name", True, other, {"min_balance": 1})
    assert (row.health.nonce, row.health.lease) == (0, None)


@pytest.mark.django_db
def test_events_go_to_the_webhook_of_now_and_to_none_of_a_deleted_relayer() -> None:
    for name in ("changed", "deleted"):
        on_nodes(identifier=name, notification=factories.notification(name), failed_checks=1)
    taken = RelayerHealth.objects.select_related("relayer").claim(2, timedelta(minutes=1))
    other = factories.notification("hook-2")
    Relayer.objects.filter(identifier="changed").update(notification=other)
    Relayer.objects.filter(identifier="deleted").delete()
    for each in taken:
        checking.write([(each, UNREAD)])
    assert [delivery.notification for delivery in Delivery.objects.all()] == [other]


@pytest.mark.django_db
def test_a_check_that_took_longer_than_its_lease_writes_and_emits_nothing() -> None:
    on_nodes(notification=factories.notification(), failed_checks=1)
    (late,) = RelayerHealth.objects.select_related("relayer").claim(1, timedelta(seconds=-1))
    (held,) = RelayerHealth.objects.select_related("relayer").claim(1, timedelta(minutes=1))
    before = RelayerHealth.objects.values().get()
    checking.write([(late, UNREAD)])
    checking.write([(late, AccountReading(None, None, ""))])
    assert RelayerHealth.objects.values().get() == before
    assert bodies() == []
    checking.write([(held, UNREAD)])
    assert [body["type"] for body in bodies()] == ["relayer.disabled"]


@pytest.mark.django_db
def test_an_event_that_cannot_be_written_leaves_the_state_as_it_was(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT * FROM nowhere")

    monkeypatch.setattr(checking, "emit", fail)
    on_nodes(notification=factories.notification(), failed_checks=1)
    assert check_due() == 1
    assert state(Relayer.objects.get()) == NO_REASON
    assert "Writing the checks of 1 relayers failed" in caplog.text


@pytest.mark.django_db
def test_a_relayer_that_breaks_the_check_does_not_stop_the_others(
    hardhat: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    whole = failover.answers

    def answers(given: Any, calls: Any, chain_id: Any) -> Any:
        if calls[0].params[0] == OTHER_ADDRESS:
            raise RuntimeError("a fault of ours")
        return whole(given, calls, chain_id)

    monkeypatch.setattr(failover, "answers", answers)
    on_nodes(hardhat + "/other", identifier="relayer-1", address=OTHER_ADDRESS)
    on_nodes(hardhat, identifier="relayer-2")
    check_due()
    assert list(RelayerHealth.objects.order_by("pk").values_list("nonce", flat=True)) == [None, 0]
    assert "Checking 1 relayers failed" in caplog.text
    # It is due when its lease ends.
    assert RelayerHealth.objects.exclude(lease=None).get().relayer.identifier == "relayer-1"


@pytest.mark.django_db
def test_what_a_killed_worker_has_taken_is_checked_when_its_lease_ends(hardhat: str, clock: Clock) -> None:
    on_nodes(hardhat, due_at=NOON)
    assert len(RelayerHealth.objects.select_related("relayer").claim(1, checking.lease_length())) == 1
    # The worker is killed here.
    clock.forward(checking.lease_length().total_seconds() - 1)
    assert check_due() == 0
    clock.forward(2)
    assert check_due() == 1
    assert Relayer.objects.get().health.nonce == 0


def test_a_lease_is_longer_than_the_slowest_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "DEADLINE_SECONDS", 60)
    assert checking.lease_length() == timedelta(seconds=60 + 60)


@pytest.mark.django_db(transaction=True)
def test_workers_that_check_at_once_never_check_the_same_relayer(
    hardhat: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "NODE_THREADS", 7)
    with node(good, hardhat) as one:
        for number in range(60):
            address = f"0x{number:040x}"
            on_nodes(one.url, identifier=f"relayer-{number}", address=address)
        checked = in_threads(*[checking._check_due] * 4)
        asked = [call["params"][0] for batch in one.requests for call in batch if call["method"] == "eth_getBalance"]
    assert sum(checked) == 60
    assert sorted(asked) == sorted(f"0x{number:040x}" for number in range(60))


@pytest.mark.django_db(transaction=True)
def test_one_thread_of_a_worker_checks_at_a_time(hardhat: str) -> None:
    begun, ended = threading.Event(), threading.Event()

    def slow(handler: faults.Handler, asked: Any) -> None:
        begun.set()
        ended.wait(PATIENCE_SECONDS)
        good(handler, asked)

    def second() -> int:
        begun.wait(PATIENCE_SECONDS)
        on_nodes(hardhat, identifier="relayer-2")
        try:
            return check_due()
        finally:
            ended.set()

    with node(slow, hardhat) as one:
        on_nodes(one.url)
        assert in_threads(check_due, second) == [2, 0]


@pytest.mark.django_db
def test_staff_have_relayers_checked_at_once_that_nobody_checks(
    hardhat: str, django_capture_on_commit_callbacks: Any
) -> None:
    later, now = timezone.now() + timedelta(hours=1), timezone.now()
    relayer = on_nodes(hardhat, due_at=later)
    on_nodes(hardhat, due_at=later, identifier="not chosen")
    checked = on_nodes(hardhat, due_at=later, identifier="checked", lease=LEASE, leased_until=later)
    left = on_nodes(hardhat, due_at=later, identifier="of a killed worker", lease=LEASE, leased_until=now)
    with django_capture_on_commit_callbacks(execute=True):
        assert check_soon([relayer.pk, checked.pk, left.pk]) == 2
    assert [task.name for task in queue.pending()] == ["check_relayers_now"]
    check_relayers_now.call_local()
    found = RelayerHealth.objects.order_by("pk").values_list("nonce", "lease")
    assert list(found) == [(0, None), (None, None), (None, LEASE), (0, None)]


@pytest.mark.django_db
def test_nodes_are_called_at_once_and_not_one_after_the_other(hardhat: str) -> None:
    together = threading.Barrier(30)

    def meet(handler: faults.Handler, asked: Any) -> None:
        together.wait(PATIENCE_SECONDS)
        good(handler, asked)

    with node(meet, hardhat) as one:
        for number in range(30):
            on_nodes(f"{one.url}&n={number}", identifier=f"relayer-{number}")
        assert check_due() == 30
    assert set(RelayerHealth.objects.values_list("nonce", flat=True)) == {0}


@pytest.mark.django_db(transaction=True)
def test_more_relayers_on_a_node_that_hangs_than_threads_delay_no_other_check(
    hardhat: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "NODE_THREADS", 4)
    released, hung = threading.Event(), list[Any]()

    def hang(handler: faults.Handler, asked: Any) -> None:
        handler.close_connection = True
        hung.append(asked)
        released.wait(PATIENCE_SECONDS)

    def others() -> None:
        try:
            wait_until(lambda: hung)
            # Due last of all, while all that hang are due or being checked.
            on_nodes(hardhat, identifier="other")
            wait_until(Relayer.objects.filter(identifier="other", health__checked_at__isnull=False).exists)
            assert not Relayer.objects.exclude(identifier="other").filter(health__checked_at__isnull=False).exists()
        finally:
            released.set()

    with node(hang) as hanging:
        for number in range(12):
            on_nodes(f"{hanging.url}&n={number}", identifier=f"hangs-{number}")
        monkeypatch.setattr(attempts, "ATTEMPT_SECONDS", PATIENCE_SECONDS)
        monkeypatch.setattr(attempts, "DEADLINE_SECONDS", PATIENCE_SECONDS)
        results = in_threads(check_due, others)
    assert results == [13, None]


@pytest.mark.postgresql
@pytest.mark.django_db
def test_a_check_leaves_indexes_alone_where_postgresql_can(hardhat: str) -> None:
    def updates() -> list[int]:
        """Return how many versions of relayers and their health this transaction has written, and in one page."""
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables "
                "WHERE relname IN ('relayers_relayer', 'relayers_relayerhealth') ORDER BY relname"
            )
            return [count for row in cursor.fetchall() for count in row]

    on_nodes(hardhat)
    check_due()
    make_due()
    before = updates()
    check_due()
    # The relayer is not written. The claim updates no index, the result that of `due_at`.
    assert [after - then for then, after in zip(before, updates(), strict=True)] == [0, 0, 2, 1]
