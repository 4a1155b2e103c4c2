"""Incidents from one reading of the causes to the next, and the messages about them."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from incidents import delivery, watching
from incidents.models import AlertMessage, Incident, IncidentRelayer
from relayer_service.models import WorkerProcess
from relayers.models import Relayer, RelayerHealth
from relayers.models.tags import save_tags
from tests.concurrency import in_threads
from tests.conftest import Log
from tests.incidents.factories import message, route
from tests.incidents.fleet import NETWORK, TITLE, incidents, node_down, node_up, relayers, watch, written
from tests.notifications.clock import NOON, Clock
from tests.relayers import factories
from tests.transactions import factories as sending
from transactions.models import ChainWatch, Lane, Transaction

pytestmark = pytest.mark.django_db


@pytest.mark.both_engines
def test_a_problem_is_announced_with_its_number_once_it_has_lasted(clock: Clock) -> None:
    relayers(31)
    route(kinds=["node_down"], on_call="Ada")
    node_down(clock, 3)
    watch(clock)
    node_down(clock)
    watch(clock)
    assert written() == []
    watch(clock, 50)
    assert written() == [f"began: {TITLE}, 31 relayers"]
    (incident,) = incidents()
    assert AlertMessage.objects.get().data == {
        "incident_id": incident.identifier,
        "kind": "node_down",
        "network": NETWORK,
        "severity": "severe",
        "title": TITLE,
        "count": 31,
        "summary": f"{TITLE}, 31 relayers",
        "reason": "no node answers Nodes: http://127.0.0.1:8545",
        "relayers": ["hardhat-0", "hardhat-1", "hardhat-2"],
        "relayers_total": 31,
        "started_at": "2026-01-01T12:00:00.000000Z",
        "ended_at": None,
        "duration_seconds": None,
        "on_call": "Ada",
        "url": f"https://relayers.example.com/admin/incidents/incident/{incident.pk}/change/",
        "created_at": "2026-01-01T12:00:30.000000Z",
    }


@pytest.mark.both_engines
def test_an_alert_names_the_error_and_the_relayers_without_keys(clock: Clock) -> None:
    relayers(2, rpc_urls=[{"url": "https://node.example.com/v2/SECRET", "weight": 1}])
    ops = route(kinds=["node_down"])
    node_down(clock, 1)
    RelayerHealth.objects.filter(failed_checks=2).update(disabled_reason_details="The node returned HTTP 401.")
    watch(clock, 40)
    node_up()
    watch(clock, 140)
    began, ended = (message.data for message in AlertMessage.objects.filter(route=ops).order_by("pk"))
    assert began["reason"] == "The node returned HTTP 401. Nodes: https://node.example.com/***"
    assert (ended["reason"], ended["relayers"], ended["relayers_total"]) == (None, ["hardhat-0"], 1)


def test_a_reason_with_markup_is_sent_as_text(clock: Clock) -> None:
    relayers(1)
    Relayer.objects.update(policies={"min_balance": 7 * 10**18})
    RelayerHealth.objects.update(balance_is_low=True, low_since=NOON)
    route(kinds=["low_balance"])
    watch(clock, 140)
    assert AlertMessage.objects.get().data["reason"] == "Its balance is 5 wei, below the minimum of 7 ETH."


def test_a_reason_that_cannot_be_read_keeps_no_alert_back(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    def fail(causes: Any) -> None:
        Relayer.objects.filter(pk="x' is no key").exists()

    monkeypatch.setattr("relayers.console.overview.examples", fail)
    relayers(1)
    route(kinds=["node_down"])
    node_down(clock)
    watch(clock, 40)
    assert (written(), AlertMessage.objects.get().data["reason"]) == ([f"began: {TITLE}, 1 relayer"], None)


def test_an_end_repeats_the_title_that_was_announced(clock: Clock) -> None:
    relayers(1)
    ops = route(kinds=["chain_halted"])
    chain = ChainWatch.objects.create(chain_id=11155111, nodes_digest="x", halted_since=NOON - timedelta(minutes=5))
    looks = {"lease": uuid4(), "due_at": timezone.now() + timedelta(days=1)}
    sending.lane(Relayer.objects.get(), watch=chain, **looks)
    watch(clock, 40)
    AlertMessage.objects.update(state="sent", due_at=None)
    watch(clock, 600)
    ChainWatch.objects.update(halted_since=None)
    watch(clock, 140)
    title = f"{NETWORK}: no new block for 5 min"
    assert [(each.event, each.data["title"]) for each in AlertMessage.objects.filter(route=ops).order_by("pk")] == [
        ("began", title),
        ("ended", title),
    ]
    assert written(ops)[-1] == f"ended: Ended after 15 minutes: {title}, peak: 1 lane"


def test_what_ends_at_once_sends_nothing_and_is_in_the_history(clock: Clock) -> None:
    relayers(1)
    route(kinds=["node_down"])
    node_down(clock)
    watch(clock)
    node_up()
    watch(clock, 200)
    (incident,) = incidents()
    assert (written(), incident.largest, incident.ended_at) == ([], 1, NOON + timedelta(seconds=20))


def test_it_is_reported_once_when_it_grows_tenfold_and_when_it_ends(clock: Clock) -> None:
    relayers(150)
    ops = route(kinds=["node_down"])
    for number in (1, 9, 10, 99, 150):
        node_down(clock, number)
        watch(clock, 60)
    AlertMessage.objects.update(state="sent", due_at=None)
    node_up()
    watch(clock, 150)
    assert written(ops) == [
        f"began: {TITLE}, 1 relayer",
        f"grew: Worse: {TITLE}, 10 relayers",
        f"grew: Worse: {TITLE}, 150 relayers",
        f"ended: Ended after 5 minutes: {TITLE}, peak: 150 relayers",
    ]


def test_what_is_not_severe_is_announced_later_and_once_more_when_it_is(clock: Clock) -> None:
    relayers(1)
    ops = route(kinds=["node_down"])
    node_down(clock, disabled=False)
    watch(clock, 120)
    assert written(ops) == []
    watch(clock)
    AlertMessage.objects.update(state="sent", due_at=None)
    node_down(clock)
    watch(clock, 30)
    assert [message.data["severity"] for message in AlertMessage.objects.order_by("pk")] == ["warning", "severe"]
    assert [line.partition(":")[0] for line in written(ops)] == ["began", "grew"]


def test_a_part_that_cannot_be_read_ends_no_problem_and_hides_no_other(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    relayers(1)
    node_down(clock)
    watch(clock)

    def fail(request: Any) -> None:
        raise OperationalError("canceling statement due to statement timeout")

    with monkeypatch.context() as patch:
        patch.setattr("relayers.console.overview.attention", fail)
        hook = factories.notification("hook")
        type(hook).objects.filter(pk=hook.pk).update(failing_since=NOON, failing_error="Returned HTTP 500.")
        watch(clock, 200)
    assert {incident.kind: incident.absent_since for incident in Incident.objects.exclude(kind="silent_worker")} == {
        "node_down": None,
        "webhook_failing": None,
    }


def test_what_comes_back_after_its_end_is_another_incident(clock: Clock) -> None:
    relayers(1)
    for _ in range(2):
        node_down(clock)
        watch(clock)
        node_up()
        watch(clock, 140)
    assert [incident.ended_at is not None for incident in incidents()] == [True, True]


def test_relayers_and_lanes_of_one_node_are_one_incident(clock: Clock) -> None:
    relayers(2)
    for relayer in Relayer.objects.all():
        sending.lane(relayer, waiting="nodes", waiting_since=NOON - timedelta(minutes=5))
    node_down(clock)
    watch(clock)
    (incident,) = incidents()
    assert (incident.title, incident.number) == (TITLE, 2)


def test_missing_funds_are_one_incident_also_while_nodes_fail(clock: Clock) -> None:
    relayers(31)
    ops = route(kinds=["waiting_for_funds"])
    for relayer in Relayer.objects.order_by("pk")[:3]:
        sending.lane(relayer, waiting="funds", missing_text="5", waiting_since=NOON - timedelta(minutes=5))
    watch(clock, 140)
    # Its lanes are read again a minute after the first checks have failed.
    Lane.objects.update(waiting="nodes", waiting_since=clock.now)
    watch(clock, 50)
    node_down(clock)
    watch(clock, 600)
    node_up()
    Lane.objects.update(waiting="funds", waiting_since=clock.now)
    watch(clock, 140)
    assert written(ops) == [f"began: {NETWORK}: lanes that wait for funds, 3 lanes"]
    Lane.objects.update(waiting="", waiting_since=None, missing_text="")
    watch(clock, 140)
    assert [line.partition(":")[0] for line in written(ops)] == ["began", "ended"]


def test_stuck_transactions_are_one_incident_also_while_the_chain_is_halted(clock: Clock) -> None:
    relayers(1)
    ops = route(kinds=["stuck"])
    looks = {"lease": uuid4(), "due_at": timezone.now() + timedelta(days=1)}
    chain = ChainWatch.objects.create(chain_id=11155111, nodes_digest="x")
    lane = sending.lane(Relayer.objects.get(), watch=chain, **looks)
    sending.transaction(lane, nonce=1, status="submitted", sent_at=NOON, created_at=NOON - timedelta(hours=1))
    watch(clock, 140)
    ChainWatch.objects.update(halted_since=NOON)
    watch(clock, 140)
    ChainWatch.objects.update(halted_since=None)
    watch(clock, 140)
    assert [line.partition(":")[0] for line in written(ops)] == ["began"]


@pytest.mark.parametrize(("position", "is_ended"), [(0, False), (1, True)])
def test_a_node_that_is_down_hides_what_is_stuck_of_its_relayers_only(
    clock: Clock, position: int, is_ended: bool
) -> None:
    relayers(2)
    lane = sending.lane(Relayer.objects.order_by("pk")[position])
    sending.transaction(lane, nonce=1, status="submitted", sent_at=NOON, created_at=NOON - timedelta(hours=1))
    watch(clock)
    Transaction.objects.all().delete()
    node_down(clock, 1)
    watch(clock, 140)
    assert (Incident.objects.get(kind="stuck").ended_at is not None) == is_ended


def test_a_route_gets_what_it_matches_only_later(clock: Clock) -> None:
    relayers(1)
    severe = route("severe", severe_only=True, kinds=["node_down"])
    node_down(clock, disabled=False)
    watch(clock, 50)
    assert written() == []
    node_down(clock)
    watch(clock)
    assert written(severe) == [f"began: {TITLE}, 1 relayer"]
    late = route("late", kinds=["node_down"])
    watch(clock)
    assert written(late) == [f"began: {TITLE}, 1 relayer"]
    assert AlertMessage.objects.count() == 2


@pytest.mark.parametrize(
    ("changes", "number"),
    [
        ({}, 1),
        ({"kinds": ["stuck", "node_down"]}, 1),
        ({"kinds": ["stuck"]}, 0),
        ({"networks": ["mainnet", NETWORK]}, 1),
        ({"networks": ["mainnet"]}, 0),
        ({"tags": ["eu", "prod"]}, 1),
        ({"tags": ["prod"]}, 0),
        ({"severe_only": True}, 0),
        ({"enabled": False}, 0),
    ],
)
def test_a_route_gets_alerts_by_kind_network_tag_and_severity(
    clock: Clock, changes: dict[str, Any], number: int
) -> None:
    relayers(2)
    relayers(1, network="mainnet")
    one, _, other = Relayer.objects.order_by("pk")
    save_tags({one.pk: ["eu"], other.pk: ["prod"]})
    route(**changes)
    node_down(clock, disabled=False)
    watch(clock, 140)
    assert AlertMessage.objects.filter(key__startswith="node_down").count() == number


@pytest.mark.both_engines
def test_a_later_message_replaces_those_that_were_not_sent(clock: Clock) -> None:
    relayers(1)
    ops = route(kinds=["node_down"])
    node_down(clock)
    watch(clock, 40)
    node_up()
    watch(clock, 140)
    states = list(AlertMessage.objects.filter(route=ops).order_by("pk").values_list("event", "state"))
    assert states == [("began", "skipped"), ("ended", "pending")]


@pytest.mark.both_engines
def test_a_new_incident_does_not_wait_behind_what_nobody_was_told_of_earlier_ones(clock: Clock) -> None:
    relayers(1)
    ops = route(kinds=["node_down"])
    for _ in range(3):
        node_down(clock)
        watch(clock, 40)
        node_up()
        watch(clock, 140)
    states = list(AlertMessage.objects.filter(route=ops).order_by("pk").values_list("event", "state"))
    assert states == [*[("began", "skipped"), ("ended", "skipped")] * 2, ("began", "skipped"), ("ended", "pending")]


def test_a_message_that_a_worker_has_begun_to_send_is_not_left_out(clock: Clock) -> None:
    relayers(1)
    ops = route(kinds=["node_down"])
    node_down(clock)
    watch(clock, 40)
    assert len(delivery.claim(ops.pk)) == 1
    node_up()
    watch(clock, 140)
    states = list(AlertMessage.objects.filter(route=ops).order_by("pk").values_list("event", "state"))
    assert states == [("began", "pending"), ("ended", "pending")]


def test_an_incident_keeps_its_relayers_and_who_acknowledged_it(clock: Clock, client: Client) -> None:
    relayers(3)
    node_down(clock, 2)
    watch(clock)
    client.force_login(User.objects.create_superuser("ada"))
    posted = {"cause": f"relayers.nodes:{NETWORK}", "number": "2", "severe": "1", "note": "On it"}
    client.post("/admin/attention/acknowledge/", posted)
    node_down(clock)
    watch(clock)
    node_up()
    watch(clock, 140)
    (incident,) = incidents()
    assert incident.relayers.count() == 3
    assert (incident.acknowledged_by, incident.note) == ("ada", "On it")
    assert incident.acknowledged_at == NOON + timedelta(seconds=10)


@pytest.mark.both_engines
def test_the_relayers_of_an_incident_are_stored_up_to_a_maximum(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IncidentRelayer, "MAX_PER_INCIDENT", 4)
    relayers(6)
    node_down(clock, 3)
    watch(clock)
    node_down(clock)
    watch(clock, 20)
    assert (incidents()[0].relayers.count(), incidents()[0].largest) == (4, 6)


def test_failing_webhooks_are_one_incident_whatever_their_errors(clock: Clock) -> None:
    for number, error in enumerate(("Returned HTTP 500.", "Returned HTTP 502.")):
        hook = factories.notification(f"hook-{number}")
        type(hook).objects.filter(pk=hook.pk).update(failing_since=NOON, failing_error=error)
    watch(clock)
    incident = Incident.objects.get(kind="webhook_failing")
    assert (incident.title, incident.number) == ("Failing webhooks", 2)


@pytest.mark.both_engines
def test_transactions_over_a_limit_and_those_that_nodes_dispute_are_incidents(clock: Clock) -> None:
    relayers(2)
    first, second = (sending.lane(relayer) for relayer in Relayer.objects.order_by("pk"))
    sending.transaction(first, reason_code=Transaction.Reason.LIMIT, status_reason="Waiting for the spending rule.")
    mined = sending.transaction(second, nonce=1, status="submitted", sent_at=NOON)
    attempt = sending.attempt(mined)
    Transaction.objects.filter(pk=mined.pk).update(status="mined", mined_attempt=attempt, status_reason="Nodes …")
    watch(clock)
    found = Incident.objects.filter(kind__in=["limit_reached", "contradiction"]).order_by("kind")
    assert [(each.kind, each.title, each.number, each.relayers.count()) for each in found] == [
        ("contradiction", f"{NETWORK}: transactions that nodes contradict each other about", 1, 1),
        ("limit_reached", f"{NETWORK}: transactions that wait for a spending limit", 1, 1),
    ]


@pytest.mark.both_engines
def test_five_failures_within_a_quarter_of_an_hour_are_an_incident(clock: Clock) -> None:
    relayers(1)
    lane = sending.lane(Relayer.objects.get())
    sending.transaction(lane, status="failed", finished_at=NOON - timedelta(minutes=20))
    found = Incident.objects.filter(kind="transactions_failing")
    for number in range(5):
        assert not found.exists()
        sending.transaction(lane, status="failed", finished_at=NOON + timedelta(seconds=number))
        watch(clock)
    title = f"{NETWORK}: transactions that failed within 15 minutes"
    assert [(each.title, each.number, each.relayers.count()) for each in found] == [(title, 5, 1)]
    watch(clock, 1200)
    watch(clock, 130)
    assert found.get().ended_at is not None


def test_a_silent_worker_is_an_incident_until_another_starts(clock: Clock) -> None:
    WorkerProcess.objects.create(name="a:1", beat_at=NOON, started_at=NOON, silent_since=NOON)
    watch(clock)
    incident = Incident.objects.get(kind="silent_worker", title="Workers that were killed or hang")
    WorkerProcess.objects.beat("b:1")
    WorkerProcess.objects.silent()
    watch(clock, 140)
    incident.refresh_from_db()
    assert incident.ended_at is not None


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_engines
def test_two_workers_open_an_incident_and_announce_it_once(clock: Clock) -> None:
    relayers(2)
    route(kinds=["node_down"])
    node_down(clock)
    in_threads(*[watching.watch] * 4)
    clock.forward(30)
    in_threads(*[watching.watch] * 4)
    assert (len(incidents()), written()) == (1, [f"began: {TITLE}, 2 relayers"])


@pytest.mark.both_engines
def test_incidents_are_deleted_with_the_audit_log(clock: Clock, settings: Any) -> None:
    relayers(1)
    node_down(clock)
    watch(clock)
    node_up()
    watch(clock, 140)
    message(route(), incidents()[0])
    clock.forward(settings.AUDIT_KEEP_DAYS * 86_400 - 3_600)
    watching.prune()
    assert len(incidents()) == 1
    clock.forward(3_600)
    watching.prune()
    assert (len(incidents()), AlertMessage.objects.count()) == (0, 0)
