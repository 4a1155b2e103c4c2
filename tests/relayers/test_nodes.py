"""The page of networks and nodes: what calls leave behind, and taking a node out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from chain.errors import NodesUnreachable
from chain.nodes import breakers, failover
from chain.nodes.attempts import Call
from chain.nodes.observers import node_key
from relayer_service.audit.models import AuditEntry
from relayer_service.net.addresses import mask
from relayer_service.observability.call_counts import DURATIONS, NODE, RELAYER, CallCount
from relayers import nodes, tasks
from relayers.health import checking
from relayers.models import UNKNOWN_NODES, Relayer
from relayers.models.nodes import NodeOutage
from relayers.nodes import slot_of
from tests.chain import faults
from tests.chain.faults import NodeServer
from tests.notifications.admin_pages import staff_who_may, told
from tests.relayers import factories

pytestmark = pytest.mark.django_db

PAGE = "/admin/relayers/relayer/nodes/"
CHAIN = 31337
BALANCE = Call("eth_getBalance", [factories.ADDRESS, "latest"])


def block(seconds_ago: int) -> dict[str, Any]:
    return {"number": hex(7), "timestamp": hex(int(timezone.now().timestamp()) - seconds_ago)}


@pytest.fixture
def node() -> Iterator[NodeServer]:
    answers: dict[str, dict[str, Any]] = {
        "eth_chainId": {"result": hex(CHAIN)},
        "eth_getBlockByNumber": {"result": block(30)},
        "eth_blockNumber": {"result": "0x7"},
        "eth_getBalance": {"result": "0x1"},
        "eth_getTransactionCount": {"result": "0x1"},
    }
    with faults.node(faults.each(lambda call: answers[call["method"]])) as server:
        yield server


@pytest.fixture
def other() -> Iterator[NodeServer]:
    with faults.node(faults.answering({"result": hex(CHAIN)})) as server:
        yield server


def own(*urls: str) -> list[dict[str, Any]]:
    return [{"url": url, "weight": 100} for url in urls]


def relayer_on(*urls: str, identifier: str = "relayer-1") -> Relayer:
    return factories.relayer(identifier=identifier, network="my-chain", chain_id=CHAIN, rpc_urls=own(*urls))


def rows(client: Client) -> list[list[str]]:
    """Return the cells of all nodes on the page, without the buttons."""
    text = client.get(PAGE).content.decode()
    found = re.findall(r'<tr>\s*(<th scope="row">.*?)</tr>', text, re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)[:7] for row in found]
    return [[" ".join(re.sub("<[^>]*>", " ", cell).split()) for cell in row] for row in cells]


def path(url: str, view: str) -> str:
    return f"{PAGE}{node_key(url)}/{view}/"


def add(key: str, slot: datetime, outcome: str = "ok", **values: Any) -> None:
    CallCount.objects.create(kind=NODE, subject=key, start=slot, outcome=outcome, **values)


def test_attempts_are_counted_without_a_query_and_written_together(
    node: NodeServer, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with faults.refusing() as dead:
        with django_assert_num_queries(0):
            for _ in range(3):
                failover.status(node.url, CHAIN)
            with pytest.raises(NodesUnreachable):
                failover.call([(dead, 1)], [BALANCE], CHAIN)
        with django_assert_num_queries(1):
            nodes.pending.flush()
    failover.status(node.url, CHAIN)
    nodes.pending.flush()
    found = {(row.subject, row.outcome): row for row in CallCount.objects.all()}
    good, bad = found.pop((node_key(node.url), "ok")), found.pop((node_key(dead), "failed"))
    assert found == {}
    assert (good.kind, good.calls, good.head, good.last_fault) == (NODE, 4, 7, "")
    assert good.head_at
    assert 25 <= (timezone.now() - good.head_at).total_seconds() < 600
    assert sum(getattr(good, name) for name in DURATIONS) == 4
    assert (bad.kind, bad.calls, bad.head, bad.last_fault) == (NODE, 1, None, "connection failed")


def test_the_page_shows_what_the_last_hour_left_of_each_node(admin_client: Client, node: NodeServer) -> None:
    now = timezone.now()
    factories.relayer(identifier="default-1")
    relayer_on(node.url, "https://b.example.com/SECRET")
    relayer_on(node.url, identifier="relayer-2")
    key, public = node_key(node.url), "https://ethereum-sepolia-rpc.publicnode.com"
    answered: dict[str, Any] = {"slowest_milliseconds": 100, "head": 7, "last_at": now}
    seen = now - timedelta(seconds=90)
    add(key, slot_of(now), calls=60, up_to_100_ms=60, head_at=now, **answered)
    past = slot_of(now - timedelta(minutes=50))
    add(key, past, calls=30, up_to_50_ms=30, head_at=seen, **answered)
    add(key, past, "failed", calls=10, up_to_50_ms=10, last_at=seen)
    # Too long ago.
    add(key, now - timedelta(hours=2), "failed", calls=1000, last_at=now)
    add(node_key(public), slot_of(now), calls=1, up_to_5_ms=1, head_at=now - timedelta(seconds=400), **answered)
    ours, unused, behind = rows(admin_client)
    age = int(ours.pop(5).removesuffix(" s"))
    assert 90 <= age < 600
    assert [ours, unused, behind[:2]] == [
        [f"{mask(node.url)} (custom)", "ok", "58 ms", "96 ms", "10.0% of 100", "2"],
        ["https://b.example.com/*** (custom)", "no calls yet", "-", "-", "-", "-", "1"],
        # Its head is too old.
        [public, "no new block for 6 min"],
    ]
    assert "SECRET" not in admin_client.get(PAGE).content.decode()


def test_the_page_shows_failing_nodes_and_open_circuits(admin_client: Client, node: NodeServer) -> None:
    with faults.refusing() as dead:
        relayer_on(dead, node.url)
        for _ in range(breakers.FAILURES_TO_PAUSE):
            with pytest.raises(NodesUnreachable):
                failover.call([(dead, 1)], [BALANCE], CHAIN)
        nodes.pending.flush()
        found = rows(admin_client)
        add(node_key(dead), slot_of(timezone.now()), last_at=timezone.now() - timedelta(minutes=5, seconds=1))
        later = rows(admin_client)
    state = r"failing circuit open until \d\d:\d\d:\d\d Last error: connection failed; "
    assert re.fullmatch(f"{state}no answer in the last hour", found[0][1])
    assert re.fullmatch(f"{state}last answer 5 minutes ago", later[0][1])
    assert (found[0][4], found[1][1]) == ("100.0% of 3", "no calls yet")


def test_check_now_calls_a_custom_node_and_tells_the_result(
    admin_client: Client, node: NodeServer, other: NodeServer
) -> None:
    relayer_on(node.url, other.url)
    good = admin_client.post(path(node.url, "check"), follow=True)
    bad = admin_client.post(path(other.url, "check"), follow=True)
    (text,) = told(good)
    assert re.fullmatch(rf"{re.escape(mask(node.url))} answered in \d+ ms; head block 7\.", text)
    assert told(bad) == [f"{mask(other.url)} failed: did not report its head block."]
    assert [row[1] for row in rows(admin_client)] == ["ok", "ok"]


def test_workers_check_every_node_that_is_not_private_and_learn_those_of_old_rows(
    admin_client: Client, node: NodeServer, other: NodeServer
) -> None:
    relayer = relayer_on(node.url)
    relayer.set_rpc_urls(own(other.url), "private_rpc_urls")
    relayer.save()
    tasks.check_nodes.call_local()
    assert (node.methods, other.requests) == ([["eth_chainId", "eth_getBlockByNumber"]], [])
    Relayer.objects.update(node_keys=UNKNOWN_NODES)
    assert "Not counted: 1 relayer whose nodes are unknown" in admin_client.get(PAGE).content.decode()
    checking.check_due()
    assert Relayer.objects.get().node_keys == relayer.node_keys
    found = {f"{mask(node.url)} (custom)", f"{mask(other.url)} (private custom)"}
    assert {row[0] for row in rows(admin_client)} == found


def test_a_node_is_taken_out_for_a_reason_and_called_last_until_it_is_put_back(
    admin_client: Client, node: NodeServer, other: NodeServer
) -> None:
    relayer_on(node.url, other.url)
    weighted = [(node.url, 100), (other.url, 1)]
    url = path(node.url, "take_out")
    for page in (admin_client.get(url), admin_client.post(url)):
        assert "after all other nodes" in page.content.decode()
    assert not NodeOutage.objects.exists()
    assert admin_client.post(path("https://c.example.com", "check")).status_code == 404
    before = timezone.now()
    done: Any = admin_client.post(url, {"reason": "It lies."}, follow=True)
    outage = NodeOutage.objects.get()
    assert told(done) == [f"{mask(node.url)} is taken out until {outage.until:%Y-%m-%d %H:%M} UTC."]
    assert before + timedelta(minutes=59) < outage.until < timezone.now() + timedelta(minutes=61)
    # Another process learns of it when it next writes its statistics.
    breakers.set_taken_out(())
    assert failover.in_order(weighted, lambda: 0.5) == [node.url, other.url]
    nodes.read_outages()
    assert failover.in_order(weighted, lambda: 0.5) == [other.url, node.url]
    # The only node is still called.
    assert failover.call([(node.url, 1)], [BALANCE], CHAIN) == ["0x1"]
    shown = f"no calls yet taken out until {outage.until:%H:%M} admin: It lies."
    assert [row[1] for row in rows(admin_client)] == [shown, "no calls yet"]
    admin_client.post(path(node.url, "put_back"), {"reason": ""})
    assert failover.in_order(weighted, lambda: 0.5) == [node.url, other.url]
    assert not NodeOutage.objects.exists()
    entries = AuditEntry.objects.filter(object_type="node taken out").order_by("pk")
    name = f"{mask(node.url)} (my-chain)"
    assert [(each.action, each.actor, each.object_id, each.reason) for each in entries] == [
        ("created", "admin", name, "It lies."),
        ("deleted", "admin", name, ""),
    ]
    assert faults.SECRET not in str([each.changes for each in entries])


def test_an_outage_ends_by_itself_and_is_pruned_with_old_statistics(node: NodeServer) -> None:
    now = timezone.now()
    values = {"url": mask(node.url), "network": "my-chain", "by": "olga", "reason": "Why."}
    NodeOutage.objects.create(node=node_key(node.url), until=now - timedelta(seconds=1), **values)
    for hours in (1, 3):
        add("a", now - timedelta(hours=hours), calls=hours)
    CallCount.objects.create(kind=RELAYER, subject="1", start=now - timedelta(hours=3), outcome="ok", calls=9)
    nodes.read_outages()
    assert breakers.avoided([node.url]) == set()
    tasks.prune_node_statistics.call_local()
    assert not NodeOutage.objects.exists()
    assert [row.calls for row in CallCount.objects.order_by("calls")] == [1, 9]


def test_who_may_only_view_relayers_sees_nodes_without_buttons(client: Client, node: NodeServer) -> None:
    relayer_on(node.url)
    text = staff_who_may(client, "view_relayer").get(PAGE).content.decode()
    assert (mask(node.url) in text, "Check now" in text, "Take out" in text) == (True, False, False)


def test_many_nodes_take_as_many_queries_as_one(admin_client: Client) -> None:
    relayer_on("https://a.example.com/1")
    admin_client.get(PAGE)
    with CaptureQueriesContext(connection) as few:
        assert len(rows(admin_client)) == 1
    for number in range(20):
        relayer_on(f"https://a.example.com/{number}/key", identifier=f"more-{number}")
        add(node_key(f"https://a.example.com/{number}/key"), slot_of(timezone.now()))
    with CaptureQueriesContext(connection) as many:
        assert len(rows(admin_client)) == 21
    assert len(many) == len(few)
