"""What Prometheus reads of transactions and lanes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from prometheus_client import REGISTRY
from pytest_django import DjangoAssertNumQueries, DjangoCaptureOnCommitCallbacks

from relayer_service.observability import metrics as exposed
from relayers.models import Relayer
from tests.notifications.clock import NOON, Clock, clock
from tests.relayer_service.observability.test_metrics import samples
from tests.relayers import factories as relayer_factories
from tests.transactions import factories
from tests.transactions.plans import nodes
from transactions import metrics
from transactions.changes import Changes, lock_rows
from transactions.metrics import LaneCollector
from transactions.models import Lane, Status, Transaction
from transactions.records.states import Cause

__all__ = ["clock"]

pytestmark = pytest.mark.django_db

HOLDS = {"operator": {"since": "2026-01-01T11:00:00.000000Z", "details": ""}}


def create_lane(number: int = 1, network: str = "sepolia", **changes: Any) -> Lane:
    address = f"0x{number:040}"
    return factories.lane(
        relayer_factories.relayer(identifier=f"relayer-{number}", address=address, network=network), **changes
    )


def in_flight(lane: Lane, nonce: int, **changes: Any) -> Transaction:
    row = factories.transaction(lane, nonce=nonce, **{"status": Status.SUBMITTED} | changes)
    factories.attempt(row)
    return row


def lane_samples() -> dict[str, float]:
    found = samples(exposed.exposition().decode())
    names = ("relayer_lane", "relayer_transactions_open")
    return {name: value for name, value in found.items() if name.startswith(names)}


def counted(name: str, **labels: str) -> float:
    """Return the value of a counter of this process, which other tests may have raised."""
    return REGISTRY.get_sample_value(name, labels) or 0


def test_lanes_and_open_transactions_are_counted(clock: Clock) -> None:
    first = create_lane(1, head_since=NOON - timedelta(seconds=90))
    second = create_lane(2, head_since=NOON - timedelta(seconds=30), holds=HOLDS, held_since=NOON)
    create_lane(3, waiting="funds", waiting_since=NOON)
    local = create_lane(4, network="hardhat", head_since=NOON)
    # Without a nonce in flight, its head has no age.
    idle = create_lane(5, head_since=NOON - timedelta(days=1))
    for nonce, status in enumerate((Status.SENT, Status.SUBMITTED, Status.SUBMITTED)):
        in_flight(first, nonce, status=status)
    in_flight(second, 0)
    in_flight(local, 0)
    for lane in (first, first, second, idle):
        factories.transaction(lane)
    factories.transaction(second, status=Status.FAILED)
    assert lane_samples() == {
        "relayer_lanes{state=running}": 3,
        "relayer_lanes{state=held}": 1,
        "relayer_lanes{state=funds}": 1,
        "relayer_lanes{state=signer}": 0,
        "relayer_lanes{state=nodes}": 0,
        "relayer_transactions_open{network=hardhat,status=submitted}": 1,
        "relayer_transactions_open{network=sepolia,status=pending}": 4,
        "relayer_transactions_open{network=sepolia,status=sent}": 1,
        "relayer_transactions_open{network=sepolia,status=submitted}": 3,
        "relayer_lane_in_flight_max{network=hardhat}": 1,
        "relayer_lane_in_flight_max{network=sepolia}": 3,
        "relayer_lane_queue_length_max{network=sepolia}": 2,
        "relayer_lane_head_age_seconds_max{network=hardhat}": 0,
        "relayer_lane_head_age_seconds_max{network=sepolia}": 90,
    }


def test_a_lane_without_funds_is_counted_as_such_while_its_nodes_fail() -> None:
    create_lane(waiting="nodes", waiting_since=NOON, missing_text="5")
    found = lane_samples()
    assert [found[f"relayer_lanes{{state={state}}}"] for state in ("funds", "nodes")] == [1, 0]


def test_the_wait_of_the_oldest_due_request_is_reported_by_network(clock: Clock) -> None:
    lane, local, paused = create_lane(1), *(create_lane(number, network="hardhat") for number in (2, 3))
    Relayer.objects.filter(lane=paused).update(paused=True)
    for each, seconds in ((lane, 75), (lane, 200), (local, -30), (paused, 500)):
        factories.transaction(each, due_at=NOON - timedelta(seconds=seconds))
    in_flight(lane, 0, due_at=NOON - timedelta(hours=1))
    found = samples(exposed.exposition().decode())
    name = "relayer_transaction_oldest_due_seconds"
    assert {key.removeprefix(name): found[key] for key in found if key.startswith(name)} == {
        "{network=sepolia}": 200,
        "{network=hardhat}": 0,
    }


def test_a_scrape_makes_as_many_queries_for_many_lanes_as_for_few(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    for number in range(1, 10):
        in_flight(create_lane(number), 1)
    with django_assert_num_queries(5):
        list(LaneCollector().collect())


@pytest.mark.postgresql
def test_a_scrape_joins_a_lane_once_however_long_its_queue_is() -> None:
    lane = create_lane()
    for _ in range(9):
        factories.transaction(lane)
    with CaptureQueriesContext(connection) as queries:
        list(LaneCollector().collect())
    (statement,) = (each["sql"] for each in queries if 'AS "status"' in each["sql"])
    assert [rows for name, rows in nodes(statement) if name in {"Nested Loop", "Hash Join", "Merge Join"}] == [1]


def move(row: Transaction, cause: Cause, **columns: Any) -> Transaction:
    with transaction.atomic():
        locked = lock_rows([row])[row.pk]
        changes = Changes()
        changes.move(locked, cause, **columns)
        changes.save()
    return locked


def test_a_settled_request_is_counted_with_its_stages_and_what_it_paid(
    clock: Clock, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    stages = {stage: {"network": "sepolia", "stage": stage} for stage in ("to_submitted", "to_mined", "to_final")}
    settled = {"network": "sepolia", "kind": "request", "status": "confirmed"}

    def read() -> list[float]:
        return [
            *(counted("relayer_transaction_seconds_count", **labels) for labels in stages.values()),
            *(counted("relayer_transaction_seconds_sum", **labels) for labels in stages.values()),
            counted("relayer_transactions_settled_total", **settled),
            counted("relayer_transaction_gas_paid_wei_total", network="sepolia"),
            counted("relayer_transactions_reorged_total", network="sepolia"),
        ]

    row = in_flight(create_lane(), 0, status=Status.SENT, created_at=NOON)
    before = read()
    paid = {"gas_used": 21_000, "effective_gas_price_text": "10"}
    with django_capture_on_commit_callbacks(execute=True):
        for cause in (Cause.RECEIVED, Cause.MINED, Cause.REORGED, Cause.MINED, Cause.SUCCEEDED):
            clock.forward(2)
            mined = None if cause == Cause.REORGED else row.last_attempt
            row = move(row, cause, mined_attempt=mined, succeeded=True, **paid)
    grown = [after - start for after, start in zip(read(), before, strict=True)]
    # Submitted after 2 seconds, mined after 4, and final after 10: the second time does not count.
    assert grown == pytest.approx([1, 1, 1, 2, 4, 10, 1, 210_000, 1])


def test_no_ops_are_counted_by_their_kind_without_stages_and_only_if_committed(
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    row = in_flight(create_lane(), 0, kind="gap")
    move(row, Cause.MINED, mined_attempt=row.last_attempt)
    row.refresh_from_db()

    def read() -> tuple[float, float]:
        return (
            counted("relayer_transactions_settled_total", network="sepolia", kind="gap", status="confirmed"),
            counted("relayer_transaction_seconds_count", network="sepolia", stage="to_final"),
        )

    settled, stages = read()
    with django_capture_on_commit_callbacks(execute=True), transaction.atomic():
        move(row, Cause.GAP_CLOSED)
        transaction.set_rollback(True)
    assert read() == (settled, stages)
    with django_capture_on_commit_callbacks(execute=True):
        move(row, Cause.GAP_CLOSED)
    assert read() == (settled + 1, stages)


def test_counters_have_the_names_of_networks_and_further_labels() -> None:
    found = [
        ("relayer_transaction_attempts_total", {"network": "4711", "purpose": "bump"}),
        ("relayer_transactions_accepted_total", {"network": "mainnet"}),
        ("relayer_transaction_broadcasts_total", {"network": "mainnet", "outcome": "accepted"}),
    ]
    before = [counted(name, **labels) for name, labels in found]
    metrics.observe_attempts(4711, "bump")
    metrics.count(metrics.ACCEPTED, 1)
    metrics.count(metrics.BROADCASTS, 1, "accepted")
    assert [counted(name, **labels) - start for (name, labels), start in zip(found, before, strict=True)] == [1, 1, 1]
