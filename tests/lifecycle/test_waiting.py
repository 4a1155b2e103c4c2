"""Operations that wait for nodes or signers: limited, and without holding resources of others."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from django.db import connection, connections

from relayer_service.background.shares import WAITING_BESIDE_CALLS
from tests.api import Api
from tests.chain import faults
from tests.contract import bodies
from tests.relayers import factories

RELAYER = {"name": "R", "network": "hardhat", "network_type": "evm", "signer_id": "signer-1", "paused": False}


class WatchedNode:
    """A node that notes of each request whether the caller held its database connection."""

    url = ""

    def __init__(self) -> None:
        self.caller = connections["default"]
        self.held: list[bool] = []

    def behave(self, handler: faults.Handler, asked: Any) -> None:
        self.held.append(self.caller.connection is not None)
        faults.answering({"result": hex(31337)})(handler, asked)


@pytest.fixture
def watched() -> Iterator[WatchedNode]:
    node = WatchedNode()
    with faults.node(node.behave) as server:
        node.url = f"http://127.0.0.1:{server.server_port}/"
        yield node


@pytest.fixture
def operations(watched: WatchedNode, db: None) -> list[tuple[str, str, Any]]:
    """Each operation that waits, on a relayer whose node answers."""
    nodes = [{"url": watched.url, "weight": 100}]
    factories.relayer(network="hardhat", rpc_urls=nodes)
    return [
        ("GET", "/api/v1/relayers/relayer-1/balance", None),
        ("POST", "/api/v1/relayers", RELAYER | {"custom_rpc_urls": nodes}),
        ("PATCH", "/api/v1/relayers/relayer-1", {"custom_rpc_urls": nodes}),
    ]


@pytest.mark.django_db(transaction=True)
def test_a_waiting_request_holds_no_database_connection(
    manager: Api, operations: list[tuple[str, str, Any]], watched: WatchedNode
) -> None:
    assert [manager(*operation).status for operation in operations] == [200, 201, 200]
    # SQLite has a connection for each thread, and no others that need it.
    assert watched.held == [connection.vendor == "sqlite"] * len(operations)


def test_a_request_is_refused_when_all_waiting_threads_are_taken(
    manager: Api, operations: list[tuple[str, str, Any]], watched: WatchedNode
) -> None:
    with ExitStack() as stack:
        for _ in range(WAITING_BESIDE_CALLS.size):
            stack.enter_context(WAITING_BESIDE_CALLS.occupied())
        answers = [manager(*operation) for operation in operations]
        assert manager.get("/api/v1/relayers/relayer-1").status == 200
    refused = (429, bodies.failure("Too Many Requests"), "1")
    assert [(answer.status, answer.body, answer.headers["retry-after"]) for answer in answers] == [refused] * 3
    assert watched.held == []


def test_what_waits_is_counted_together_and_apart_from_calls(
    manager: Api, operations: list[tuple[str, str, Any]], settings: Any
) -> None:
    settings.RATE_LIMIT_RPC = "2/d"
    answers = [manager(*operation) for operation in operations]
    assert [answer.status for answer in answers] == [200, 201, 429]
    assert 1 <= int(answers[2].headers["retry-after"]) <= 24 * 60 * 60
    assert manager.get("/api/v1/relayers/relayer-1/status").status == 200
    assert manager.post("/api/v1/relayers/relayer-1/rpc", {}).status == 400
