"""A relayer, its lane, a chain and the oracle in one place, for tests that drive a lane step by step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests import servers
from tests.chain.hardhat import contracts
from tests.transactions import accounts
from tests.transactions.engines import (
    Engine,
    Killed,
    at_step,
    end_lease,
    is_final,
    kill,
    let_time_pass,
    run_until_final,
)
from tests.transactions.mempool import MempoolChain
from tests.transactions.oracle import Oracle
from transactions.models import Attempt, Lane, Transaction


class Lab:
    def __init__(self, chain: MempoolChain, name: str = "sender", **relayer: Any) -> None:
        self.chain = chain
        self.sender = accounts.sender(chain, chain.ledger, name, **relayer)
        self.oracle = Oracle(chain, chain.ledger, since=chain.head(), secrets=self.sender.secrets)
        self.engine = Engine(0)

    @property
    def lane(self) -> Lane:
        return Lane.objects.get(relayer=self.sender.relayer)

    def send(self, name: str, *, key: str = "", **changes: Any) -> Transaction:
        """Request that a name is recorded."""
        identifier = self.sender.send(accounts.ledger_id(name), key, **changes)
        self.oracle.accepted[identifier] = accounts.ledger_id(name)
        self.engine.lane_pk = self.lane.pk
        return Transaction.objects.get(identifier=identifier)

    def turn(self) -> None:
        self.engine.turn()

    def look(self) -> None:
        self.engine.look()

    def block(self, count: int = 1) -> None:
        """Mine blocks, and look at the chain after each."""
        for _ in range(count):
            self.chain.block()
            self.look()

    def turn_killed_at(self, step: str) -> None:
        """Take a turn that ends at a step, and let the lease of the dead worker end."""
        with at_step(step, kill), suppress(Killed):
            self.turn()
        self.restart()

    def restart(self) -> None:
        """Lose the worker with all that it has in memory, and its lease too."""
        self.engine.die()
        end_lease(self.lane.pk)

    def finish(self) -> None:
        """Go on until everything is final, and check all invariants."""
        run_until_final(self.engine, self.chain)
        violations = self.oracle.violations_at_rest()
        assert not violations, violations

    def statuses(self) -> list[tuple[int | None, str]]:
        """The requests in the order of acceptance, each with its nonce."""
        rows = Transaction.objects.filter(kind=Transaction.Kind.REQUEST).order_by("sequence")
        return list(rows.values_list("nonce", "status"))


def attempts(row: Transaction) -> list[Attempt]:
    return list(Attempt.objects.filter(transaction=row).order_by("number"))


@pytest.fixture(scope="session")
def mempool_node() -> Iterator[MempoolChain]:
    """A node for the tests of one process, as each takes seconds to start."""
    try:
        contracts()
        found = MempoolChain()
    except servers.Unavailable as reason:
        pytest.skip(str(reason))
    yield found
    found.stop()


@pytest.fixture
def mempool(mempool_node: MempoolChain) -> MempoolChain:
    """An empty chain with a mempool and the contract."""
    mempool_node.reset()
    return mempool_node


@pytest.fixture
def lab(mempool: MempoolChain, transactional_db: None, settings: Any) -> Lab:
    settings.EXTENSIONS = ["transactions"]
    return Lab(mempool)


__all__ = ["Lab", "attempts", "is_final", "lab", "let_time_pass", "mempool", "mempool_node"]
