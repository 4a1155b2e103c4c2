"""A lab on a network whose chain is not replaced: nodes are believed only what its block time allows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chain.networks import networks
from tests.transactions.engines import end_lease, let_time_pass
from tests.transactions.lab import Lab
from tests.transactions.lies import raise_head
from tests.transactions.lying_node import LyingNode, lying_node
from tests.transactions.mempool import MempoolChain

BLOCK_SECONDS = 12
HIGH = 1_000_000
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
    def __init__(self, chain: MempoolChain, *nodes: LyingNode, **relayer: Any) -> None:
        self.nodes = nodes
        urls = [{"url": node.url, "weight": 100} for node in nodes]
        super().__init__(chain, network="steady", rpc_urls=urls, **relayer)

    def look_at_high_head(self, blocks: int = HIGH) -> None:
        """Look at the chain once while each node reports a head that is too high."""
        for node in self.nodes:
            node.lie_once(HEAD, raise_head(blocks))
        self.look()
        for node in self.nodes:
            node.be_honest()

    def begin(self) -> None:
        """Have the chain read before anything is sent."""
        self.engine.lane_pk = self.lane.pk
        self.turn()
        self.block()

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


@contextmanager
def steady_network(settings: Any, path: Path, **changes: Any) -> Iterator[None]:
    path.write_text(json.dumps({"networks": {"steady": NETWORK | changes}}))
    settings.NETWORKS_FILE = str(path)
    networks.cache_clear()
    yield
    networks.cache_clear()


@pytest.fixture
def steady(settings: Any, tmp_path: Path) -> Iterator[None]:
    settings.EXTENSIONS = ["transactions"]
    with steady_network(settings, tmp_path / "networks.json"):
        yield


@pytest.fixture
def steady_lab(mempool: MempoolChain, transactional_db: None, steady: None) -> Iterator[SteadyLab]:
    with lying_node(mempool.url) as node:
        yield SteadyLab(mempool, node)


@pytest.fixture
def two_nodes(mempool: MempoolChain, transactional_db: None, steady: None) -> Iterator[SteadyLab]:
    with lying_node(mempool.url) as one, lying_node(mempool.url) as other:
        yield SteadyLab(mempool, one, other)
