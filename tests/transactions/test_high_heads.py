"""Nodes that report a head which does not exist: nothing is decided by it, and nothing of it stays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from chain.networks import networks
from relayer_service.database.clock import database_now
from tests.transactions.accounts import ledger_id
from tests.transactions.engines import end_lease, let_time_pass
from tests.transactions.hardhat import record_then
from tests.transactions.lab import Lab, attempts, is_final
from tests.transactions.lies import raise_head
from tests.transactions.lying_node import LyingNode, lying_node
from tests.transactions.mempool import MempoolChain
from tests.transactions.private_node import private_node
from transactions.models import Attempt, ChainWatch, Hold, Lane, Status, Transaction
from transactions.settlement import chains

pytestmark = pytest.mark.django_db(transaction=True)

BLOCK_SECONDS = 12
HIGH = 1_000_000
# Its chain is not replaced: nodes are believed only what its block time allows.
NETWORK = {
    "chain_id": 31337,
    "symbol": "ETH",
    "decimals": 18,
    "block_seconds": BLOCK_SECONDS,
    "confirmations": 12,
    "finality_depth": 14,
    "max_gas_price": 10_000 * 10**9,
}
# The request that reads the head in a look at the chain.
HEAD = "eth_getBlockByNumber"


class SteadyLab(Lab):
    def __init__(self, chain: MempoolChain, *nodes: LyingNode) -> None:
        self.nodes = nodes
        super().__init__(chain, network="steady", rpc_urls=[{"url": node.url, "weight": 100} for node in nodes])

    def look_at_high_head(self) -> None:
        """Look at the chain once while the node reports a head that is too high."""
        self.nodes[0].lie_once(HEAD, raise_head(HIGH))
        self.look()
        self.nodes[0].be_honest()

    def pass_blocks(self, count: int) -> None:
        """Take a turn, mine a block and look at the chain, with the time of a block in between."""
        for _ in range(count):
            self.turn()
            self.chain.block()
            let_time_pass(BLOCK_SECONDS)
            end_lease(self.lane.pk)
            self.engine.lane = None
            self.turn()
            self.look()


@pytest.fixture
def steady(settings: Any, tmp_path: Path) -> Iterator[None]:
    path = tmp_path / "networks.json"
    path.write_text(json.dumps({"networks": {"steady": NETWORK}}))
    settings.EXTENSIONS, settings.NETWORKS_FILE = ["transactions"], str(path)
    networks.cache_clear()
    yield
    networks.cache_clear()


@pytest.fixture
def steady_lab(mempool: MempoolChain, transactional_db: None, steady: None) -> Iterator[SteadyLab]:
    with lying_node(mempool.url) as node:
        yield SteadyLab(mempool, node)


@pytest.fixture
def two_nodes(mempool: MempoolChain, transactional_db: None, steady: None) -> Iterator[SteadyLab]:
    with lying_node(mempool.url) as one, lying_node(mempool.url) as other:
        yield SteadyLab(mempool, one, other)


def sent_and_mined(lab: SteadyLab, name: str = "a") -> Transaction:
    """Send a transaction, and read its block with a head that is too high."""
    lab.send("first")
    lab.pass_blocks(2)
    row = lab.send(name)
    lab.turn()
    lab.chain.block()
    lab.look_at_high_head()
    row.refresh_from_db()
    return row


def stored_blocks() -> list[int]:
    lane, watch = Lane.objects.get(), ChainWatch.objects.get()
    blocks = (lane.chain_block, lane.final_block, lane.gap_block, watch.head_number)
    return [block for block in blocks if block is not None]


def test_a_receipt_counts_and_a_high_head_confirms_nothing(steady_lab: SteadyLab) -> None:
    row = sent_and_mined(steady_lab)
    assert row.status == Status.MINED
    assert max(stored_blocks()) <= steady_lab.chain.head()
    steady_lab.look_at_high_head()
    row.refresh_from_db()
    assert row.status == Status.MINED
    steady_lab.pass_blocks(11)
    row.refresh_from_db()
    assert row.status == Status.CONFIRMED
    # Nothing that was mined is broadcast again.
    let_time_pass(120)
    steady_lab.send("b")
    steady_lab.pass_blocks(13)
    assert is_final()
    before = len(steady_lab.nodes[0].raw)
    let_time_pass(120)
    steady_lab.pass_blocks(1)
    assert len(steady_lab.nodes[0].raw) == before


def test_a_reverting_request_fails_after_a_high_head(steady_lab: SteadyLab) -> None:
    sent_and_mined(steady_lab)
    let_time_pass(120)
    steady_lab.pass_blocks(1)
    data = "0x" + record_then(ledger_id("fails"), True).hex()
    row = steady_lab.send("fails", data=data)
    steady_lab.turn()
    row.refresh_from_db()
    assert row.status == Status.FAILED


def test_a_seal_ends_though_it_began_with_a_high_head(steady_lab: SteadyLab) -> None:
    steady_lab.send("first")
    steady_lab.pass_blocks(15)
    call_command("hold_lanes", restored=True, verbosity=0)
    steady_lab.look_at_high_head()
    let_time_pass(120)
    for _ in range(120):
        steady_lab.pass_blocks(1)
        if not steady_lab.lane.holds:
            break
    assert steady_lab.lane.holds == {}


def test_a_high_head_reveals_no_private_transaction_and_hides_none_for_ever(steady_lab: SteadyLab) -> None:
    node = steady_lab.nodes[0]
    steady_lab.send("first")
    steady_lab.pass_blocks(2)
    with private_node(steady_lab.chain) as private:
        relayer = steady_lab.sender.relayer
        relayer.set_rpc_urls([{"url": private.url, "weight": 100}], "private_rpc_urls")
        relayer.policies, relayer.private_fallback_blocks = {"private_transactions": True}, 25
        relayer.save()
        row = steady_lab.send("hidden")
        # The turn that signs it reads the head, too.
        node.lie_once("eth_blockNumber", raise_head(HIGH))
        steady_lab.turn()
        steady_lab.look_at_high_head()
        let_time_pass(30)
        steady_lab.pass_blocks(23)
        (attempt,) = attempts(row)
        assert bytes(attempt.raw) not in node.raw
        # Its block is at most three too high.
        steady_lab.pass_blocks(6)
    assert bytes(attempts(row)[-1].raw) in node.raw


def test_blocks_that_were_stored_above_the_head_are_lowered(steady_lab: SteadyLab) -> None:
    """They may be those of the first head, which is always believed, or of an earlier release."""
    steady_lab.send("first")
    steady_lab.pass_blocks(15)
    steady_lab.send("a")
    steady_lab.turn()
    head, far = steady_lab.chain.head(), steady_lab.chain.head() + HIGH
    hold = {"since": "2026-01-01T00:00:00.000000Z", "details": "", "identity": "", "block": far}
    names = ("chain_block", "final_block", "gap_block", "search_block", "searched_block")
    Lane.objects.update(**dict.fromkeys(names, far), holds={"lost_commits": hold}, held_since=database_now())
    Lane.objects.update(final_nonce=50)
    Attempt.objects.update(private_since=far, broadcast_block=far)
    ChainWatch.objects.update(head_number=far, head_at=database_now() - timedelta(minutes=3))

    steady_lab.look()

    lane = steady_lab.lane
    assert max(stored_blocks()) <= head
    assert (lane.search_block, lane.searched_block) == (0, None)
    assert lane.holds[Hold.LOST_COMMITS]["block"] == head
    open_attempt = Attempt.objects.get(transaction__status__in=["sent", "submitted"])
    assert (open_attempt.private_since, open_attempt.broadcast_block) == (head, head)
    steady_lab.pass_blocks(1)
    assert steady_lab.lane.final_nonce == 1


def test_a_head_that_two_nodes_have_is_believed_and_one_of_a_single_node_is_not(two_nodes: SteadyLab) -> None:
    two_nodes.send("first")
    two_nodes.pass_blocks(1)
    two_nodes.chain.block(30)
    two_nodes.look()
    assert ChainWatch.objects.get().head_number == two_nodes.chain.head()
    two_nodes.nodes[0].lie("eth_getBlockByNumber", raise_head(HIGH))
    for _ in range(10):
        two_nodes.pass_blocks(1)
        assert max(stored_blocks()) <= two_nodes.chain.head()
    assert ChainWatch.objects.get().head_number == two_nodes.chain.head()


def test_rising_heads_of_the_only_node_are_believed_in_the_end(
    steady_lab: SteadyLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    steady_lab.send("first")
    steady_lab.pass_blocks(1)
    steady_lab.chain.block(30)
    believed, start = [], database_now()
    for seconds in (0, 119, 120):
        steady_lab.chain.block()
        now = start + timedelta(seconds=seconds)
        monkeypatch.setattr(chains, "database_now", lambda now=now: now)
        steady_lab.look()
        believed.append(ChainWatch.objects.get().head_number == steady_lab.chain.head())
    assert believed == [False, False, True]


def test_tolerance_is_not_granted_with_every_look(steady_lab: SteadyLab) -> None:
    """A node that is always three blocks above what time allows gets three blocks, not three with each look."""
    steady_lab.send("first")
    steady_lab.pass_blocks(1)
    before: Any = ChainWatch.objects.get().head_number
    for blocks in range(1, 10):
        steady_lab.chain.block()
        steady_lab.look()
        head: Any = ChainWatch.objects.get().head_number
        assert head <= before + 4, blocks
