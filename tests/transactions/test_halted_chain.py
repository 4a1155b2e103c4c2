"""A chain without new blocks: nothing blames the price, a slow chain is not halted, and the next block ends it."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from chain.errors import NodesUnreachable
from chain.nodes.plausibility import BEHIND
from relayers import guards
from tests.chain.answering_node import ChangeNetwork
from tests.relayer_service.admin.overview_pages import attention
from tests.relayers import factories as relayers
from tests.transactions import factories
from tests.transactions.hardhat import RECEIVER, LocalChain
from tests.transactions.lies import status
from tests.transactions.lying_node import ANY, Request, lying_node
from tests.transactions.single_turns import take_turn
from transactions.console.stuck.cells import Cell, State, headline
from transactions.console.stuck.remedies import Advice, recommend
from transactions.lanes import leasing
from transactions.models import ChainWatch, Lane, Transaction
from transactions.records.reasons import status_reason
from transactions.settlement.watching import look

pytestmark = pytest.mark.django_db

AGE = timedelta(minutes=10)


def with_old_head(request: Request) -> None:
    """Set the time of the head block to ten minutes ago."""
    answers = request.answers()
    for call, answer in zip(request.calls, answers, strict=True):
        if call["method"] == "eth_getBlockByNumber" and call["params"][0] == "latest":
            answer["result"]["timestamp"] = hex(int(time.time() - AGE.total_seconds()))
    request.answer(answers)


@pytest.mark.parametrize(
    ("changes", "is_halted"),
    [
        # Its nodes are behind, and then no turn can read them.
        ({"max_head_age_seconds": 300}, True),
        ({"max_head_age_seconds": 3600}, True),
        # Ten blocks and a minute have not passed.
        ({"max_head_age_seconds": 3600, "block_seconds": 60}, False),
        # Mined on demand: then a transaction has to wait for a block.
        ({}, False),
        ({"submitted_at": AGE}, True),
        ({"submitted_at": AGE, "status_reason": "The cap is too low."}, False),
    ],
)
def test_a_chain_is_halted_until_it_has_a_new_block(
    local_chain: LocalChain, change_network: ChangeNetwork, changes: dict[str, Any], is_halted: bool
) -> None:
    columns = {name: changes.pop(name) for name in ("submitted_at", "status_reason") if name in changes}
    change_network(finality_depth=2, **changes)
    local_chain.rpc("evm_setAutomine", False)
    local_chain.rpc("evm_setNextBlockTimestamp", int(time.time()) + 30)
    local_chain.mine()
    with lying_node(local_chain.url) as node:
        relayer = relayers.relayer(network="hardhat", rpc_urls=[{"url": node.url, "weight": 100}])
        lane = leasing.claim(factories.lane(relayer).pk)
        assert lane is not None
        row = factories.transaction(lane, to=RECEIVER, value_text="1")
        take_turn(lane)
        look([lane])
        if "submitted_at" in columns:
            columns["submitted_at"] = datetime.now(UTC) - AGE
        Transaction.objects.filter(pk=row.pk).update(**columns)
        node.lie("eth_getBlockByNumber", with_old_head)
        try:
            look([lane])
        except NodesUnreachable as fault:
            assert changes == {"max_head_age_seconds": 300}, fault
        assert [*guards.get_guard().halted_chains()] == ([31337] if is_halted else [])
        row, lane = Transaction.objects.get(pk=row.pk), Lane.objects.get(pk=lane.pk)
        assert status_reason(row, lane).startswith("No new block since ") == is_halted

        # Nodes that fail say nothing about the chain.
        node.be_honest()
        node.lie(ANY, status(503, with_json=False))
        with pytest.raises(NodesUnreachable):
            look([lane])
        assert [*guards.get_guard().halted_chains()] == ([31337] if is_halted else [])

        node.be_honest()
        local_chain.rpc("evm_setNextBlockTimestamp", int(time.time()) + 60)
        local_chain.mine()
        look([lane])
    assert guards.get_guard().halted_chains() == {}


def test_pages_say_how_long_there_was_no_new_block(admin_client: Client, settings: Settings) -> None:
    settings.EXTENSIONS = ["transactions"]
    now = datetime.now(UTC)
    watch = ChainWatch.objects.create(
        chain_id=11155111, nodes_digest="x", halted_since=now - timedelta(minutes=5, seconds=17)
    )
    lane = factories.lane(relayers.relayer(name="Treasury"), watch=watch, next_nonce=6, chain_nonce=5)
    held = leasing.claim(lane.pk)
    assert held is not None
    row = factories.transaction(lane, nonce=5, status="submitted", created_at=now - timedelta(minutes=20))
    factories.attempt(row)
    text = "Nothing is mined until the chain goes on."
    (line,) = (each for each in attention(admin_client) if each.startswith("sepolia"))
    assert line.startswith(f"sepolia: no new block for 5 min 1 lane {text} Since ")
    page = admin_client.get(f"/admin/transactions/lane/{lane.pk}/change/").context["stuck"]
    assert (page["is_stuck"], page["headline"]) == (True, "No new block for 5 min. Waiting: 1 in flight.")
    # Once its worker has lost it, nobody knows.
    assert leasing.claim(lane.pk) is None
    Lane.objects.update(due_at=now - timedelta(minutes=5))
    lane = Lane.objects.select_related("watch").get()
    found = headline(lane, [], {"submitted": 1}, AGE, now, "")
    assert found.text == "No worker takes the turns of this lane. Check that workers run."
    assert not any("no new block" in each for each in attention(admin_client))


def test_nodes_with_the_last_block_of_a_halted_chain_have_answered(admin_client: Client, settings: Settings) -> None:
    settings.EXTENSIONS = ["transactions"]
    now = datetime.now(UTC)
    watch = ChainWatch.objects.create(chain_id=11155111, nodes_digest="x", halted_since=now - AGE)
    lane = factories.lane(relayers.relayer(), watch=watch, waiting="nodes", waiting_since=now - AGE)
    assert leasing.claim(lane.pk) is not None
    titles, pages = list[Any](), []
    for reasons in (
        BEHIND.format(60),
        f"{BEHIND.format(60)}; the node timed out",
        f"connection failed; {BEHIND.format(60)}",
    ):
        Lane.objects.update(waiting_details=str(NodesUnreachable(reasons)), due_at=now + AGE)
        found = attention(admin_client)
        titles.append([line.partition(" 1 lane")[0] for line in found if line.startswith("sepolia")])
        pages.append(admin_client.get(f"/admin/relayers/relayer/{lane.relayer_id}/change/").content.decode())
    # One sentence on the relayer's page, and no other badge.
    shown = [("No new block since" in page, "nodes fail" in page, "No node answer" in page) for page in pages]
    assert shown == [(True, False, False), (False, True, True), (False, True, True)]
    halted, unreachable = "sepolia: no new block for 10 min", "sepolia: lanes whose nodes do not answer"
    assert titles == [[halted], [halted, unreachable], [halted, unreachable]]
    # They have answered before the chain counts as halted, too.
    ChainWatch.objects.update(halted_since=None)
    Lane.objects.update(waiting_details=str(NodesUnreachable(BEHIND.format(60))))
    (line,) = (line for line in attention(admin_client) if line.startswith("sepolia"))
    assert line.startswith("sepolia: no new block on its nodes 1 lane")
    assert ": The nodes answer, with an old block." in line


def test_no_price_is_raised_on_advice_while_the_chain_is_halted() -> None:
    now = datetime.now(UTC)
    lane = Lane(watch=ChainWatch(halted_since=now - AGE), chain_nonce=5, next_nonce=6, due_at=now)
    cell = Cell(State.IN_FLIGHT, 5, Transaction(nonce=5, status="submitted"), is_next=True, since=now - AGE)
    waiting = Cell(State.WAITING, row=Transaction())
    lane.waiting = "nodes"
    found = {recommend(each, lane, timedelta(minutes=5), now) for each in (cell, waiting)}
    assert found == {Advice(None, "Nothing is mined until the chain has a new block.")}
