"""The fake service of the client: what it shares with the real one is tested on both."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from client_tests.bench import Bench, FakeBench
from client_tests.test_fake import *  # noqa: F403  # its tests
from client_tests.test_relayers import *  # noqa: F403  # its tests
from client_tests.test_transactions import *  # noqa: F403  # its tests
from relayer_client import Client, Relayer, Transaction
from relayer_client.results import TransactionStatus
from tests.client.running import Service, mine_always
from tests.client.scripted_server import AT_ONCE
from tests.concurrency import PATIENCE_SECONDS, wait_until
from tests.transactions.hardhat import LocalChain


class RealBench:
    """A relayer of the real service, whose chain mines when a test moves a transaction."""

    def __init__(self, relayer: Relayer, node: LocalChain) -> None:
        self.relayer = relayer
        self.losses = 0
        self._node = node

    def lose_response(self) -> None:
        self.losses += 1

    def hook(self, response: httpx.Response) -> None:
        if self.losses:
            self.losses -= 1
            raise httpx.ReadError("The connection is lost.")

    def move(self, transaction: Transaction, status: TransactionStatus) -> None:
        if status == "submitted":
            self.relayer.wait(transaction, status, timeout=PATIENCE_SECONDS)
            # Also its replacement.
            wait_until(lambda: self._has(self.relayer.get_transaction(transaction)))
            return
        mine_always(self._node)
        assert self.relayer.wait(transaction, "final", timeout=PATIENCE_SECONDS).status == status
        self._node.mine_on_demand()

    def _has(self, transaction: Transaction) -> bool:
        return self._node.rpc("eth_getTransactionByHash", transaction.hash) is not None


@pytest.fixture(params=["fake", "real"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    if request.param == "fake":
        yield FakeBench()
        return
    service: Service = request.getfixturevalue("service")
    node: LocalChain = request.getfixturevalue("node")
    node.mine_on_demand()
    with httpx.Client(timeout=PATIENCE_SECONDS) as http:
        relayer = Client(service.url, service.token, http=http, retries=AT_ONCE).relayer("sender")
        bench = RealBench(relayer, node)
        http.event_hooks = {"response": [bench.hook]}
        yield bench
        relayer.cancel_all()
