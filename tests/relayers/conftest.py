"""What tests of relayers have at hand."""

from collections.abc import Iterator

import pytest

from chain.nodes import failover
from tests.notifications.clock import clock
from tests.relayers.stand_in_node import StandInNode, serve
from tests.relayers.stub_nodes import StubNodes, stub_nodes

__all__ = ["clock"]


@pytest.fixture
def node() -> Iterator[StandInNode]:
    with serve(StandInNode()) as node:
        yield node


@pytest.fixture
def nodes() -> Iterator[StubNodes]:
    with stub_nodes() as running:
        yield running


@pytest.fixture
def no_node(monkeypatch: pytest.MonkeyPatch, db: None) -> None:
    """Every node is on the chain that is expected of it."""
    monkeypatch.setattr(failover, "chain_ids", lambda urls: [11155111 for _ in urls])
