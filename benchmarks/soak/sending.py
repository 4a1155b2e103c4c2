"""The soak of sending: transactions with idempotency keys, on a chain with a lying node and reorgs."""

import os
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any

import psycopg

from benchmarks.sending.hardhat import mining_chain
from benchmarks.sending.networks import networks_file
from benchmarks.soak import send_rows, send_verdict, verdict
from benchmarks.soak.answers import CRASHED, NODE_LIES, REORG, Disturbance
from benchmarks.soak.callers import Caller, Reader
from benchmarks.soak.chaos import Chaos, Pace
from benchmarks.soak.preparation import migrated
from benchmarks.soak.running import Soak
from benchmarks.soak.send_callers import Sender, lists
from tests.transactions.lies import SEEDED
from tests.transactions.lying_node import lying_node

RELAYERS = 6
READERS = 2
# A reorg replaces fewer blocks than confirm a transaction.
CONFIRMATIONS, FINALITY_DEPTH = 6, 12
REORG_SECONDS = 2.5
# A worker is killed every 20 s: with the shipped lease of 30 s, lanes would wait most of the time.
LEASE_SECONDS = 5
# The part of the node's answers that are lies.
SHARE, SEED = 0.3, 1
# How rarely the database server crashes, which closes all connections too.
CUTS_PER_CRASH = 3
RECOVERY_SECONDS = 30
CHECKPOINTER = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'"


class SendingSoak(Soak):
    drain_seconds = 90
    beside_seconds = 240

    def settings(self, stack: ExitStack) -> dict[str, str]:
        self.chain = stack.enter_context(mining_chain())
        self.node = stack.enter_context(lying_node(self.chain.url))
        depths = {"finality_depth": FINALITY_DEPTH}
        file = networks_file(self.folder, self.chain.url, CONFIRMATIONS, **depths)
        return {"EXTENSIONS": "transactions", "NETWORKS_FILE": file, "LANE_LEASE_SECONDS": str(LEASE_SECONDS)}

    def prepare(self, stack: ExitStack) -> str:
        with migrated():
            self.rows = send_rows.create([self.node.url, self.chain.url], self.receiver, RELAYERS)
        self.chain.fund([relayer.address for relayer in self.rows.relayers])
        return self.rows.token

    def create_chaos(self) -> Chaos:
        return SendingChaos(self)

    def reconnect(self) -> psycopg.Connection[Any]:
        """Connect anew, as soon as the server accepts connections again."""
        deadline = time.monotonic() + RECOVERY_SECONDS * self.pace.patience
        while True:
            try:
                self.connection = psycopg.connect(self.database, autocommit=True)
                return self.connection
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def callers(self) -> list[Caller]:
        self.senders = self.create_senders()
        return [*self.senders, *(Reader(self.site, lists(self.rows.relayers), 0.5) for _ in range(READERS))]

    def create_senders(self) -> Sequence[Sender]:
        relayers = enumerate(self.rows.relayers)
        return [Sender(self.site, relayer, self.chain.ledger, position) for position, relayer in relayers]

    def plan(self) -> list[tuple[float, str]]:
        return sorted([*super().plan(), *plan_chain(self.pace)])

    def drain(self) -> None:
        self.node.be_honest()
        super().drain()

    def is_drained(self) -> bool:
        return super().is_drained() and not send_verdict.count_open(self.connection)

    def compare(self) -> None:
        self.judged = send_verdict.judge(self.connection, self.chain, self.senders)
        self.faults += self.judged.faults
        self.faults += verdict.lost_webhooks(verdict.outbox(self.connection), self.receiver)
        self.faults += verdict.not_ready(self.fleet.port)

    def figures(self) -> dict[str, Any]:
        return {"transactions": self.judged.figures | {"lies_of_the_node": len(self.node.told)}}


class SendingChaos(Chaos):
    """What is done to the chain and to the database server, too."""

    def __init__(self, soak: SendingSoak) -> None:
        super().__init__(soak.fleet, soak.redis, soak.connection)
        self.soak = soak

    def do(self, name: str, *, spare_oldest: bool) -> None:
        if name not in {REORG, CRASHED, NODE_LIES}:
            super().do(name, spare_oldest=spare_oldest)
            return
        self.done.append(Disturbance(name, time.monotonic()))
        if name == NODE_LIES:
            self.soak.node.lie_by_seed(SEED, SEEDED, SHARE)
        elif name == REORG:
            self.soak.chain.reorganise(REORG_SECONDS)
        else:
            self._crash_database()

    def _crash_database(self) -> None:
        """Kill a process of the server: it ends all others and recovers from its log."""
        found = self.connection.execute(CHECKPOINTER).fetchone()
        assert found is not None, "every server has one"
        os.kill(found[0], signal.SIGKILL)
        # Until then the server would accept another connection, and close it.
        with suppress(psycopg.OperationalError):
            while True:
                self.connection.execute("SELECT 1")
                time.sleep(0.01)
        self.connection = self.soak.reconnect()


def plan_chain(pace: Pace) -> list[tuple[float, str]]:
    """Return what is done to the chain and to the database server, with its time; nothing happens near the end."""
    last = pace.seconds - pace.kill_seconds // 2
    events: list[tuple[float, str]] = [(0, NODE_LIES)]
    events += [(at + pace.kill_seconds / 3, REORG) for at in range(0, last, pace.kill_seconds)]
    crash_seconds = pace.cut_seconds * CUTS_PER_CRASH
    return events + [(at - pace.cut_seconds / 2, CRASHED) for at in range(crash_seconds, last, crash_seconds)]
