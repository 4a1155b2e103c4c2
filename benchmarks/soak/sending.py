"""The soaks of sending: transactions with idempotency keys, on a chain with reorgs and nodes that fail or lie."""

import itertools
import os
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any

import psycopg

from benchmarks.sending.hardhat import mining_chain
from benchmarks.sending.networks import networks_file
from benchmarks.soak import send_rows, send_verdict, verdict
from benchmarks.soak.answers import CRASHED, NODE_LIES, REORG, Disturbance
from benchmarks.soak.callers import Caller, Reader
from benchmarks.soak.chaos import Chaos, Pace
from benchmarks.soak.deceptions import DECEPTIONS, HIGH_HEAD, Deceiver
from benchmarks.soak.preparation import migrated
from benchmarks.soak.running import Soak
from benchmarks.soak.send_callers import LimitedSender, Sender, lists
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
# For three times the depth of finality.
DECEIVED_SECONDS = 36
CHECKPOINTER = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'"


class SendingSoak(Soak):
    """With a node beside an honest one that fails in all ways, and reports nothing that is after money."""

    drain_seconds = 90
    beside_seconds = 240
    limits: Mapping[str, int] = {}

    def settings(self, stack: ExitStack) -> dict[str, str]:
        self.chain = stack.enter_context(mining_chain())
        self.node = stack.enter_context(lying_node(self.chain.url))
        depths = {"finality_depth": FINALITY_DEPTH}
        file = networks_file(self.folder, self.nodes()[-1][0], CONFIRMATIONS, **depths)
        return {"EXTENSIONS": "transactions", "NETWORKS_FILE": file, "LANE_LEASE_SECONDS": str(LEASE_SECONDS)}

    def nodes(self) -> list[tuple[str, int]]:
        """Return the nodes of the relayers, each with its weight; the last one is the network's too."""
        return [(self.node.url, 100), (self.chain.url, 100)]

    def prepare(self, stack: ExitStack) -> str:
        with migrated():
            self.rows = send_rows.create(self.nodes(), self.receiver, RELAYERS, self.limits)
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

    def start_lies(self) -> None:
        self.node.lie_by_seed(SEED, SEEDED, SHARE)

    def plan(self) -> list[tuple[float, str]]:
        return sorted([*super().plan(), *plan_chain(self.pace)])

    def drain(self) -> None:
        self.node.be_honest()
        super().drain()

    def is_drained(self) -> bool:
        return super().is_drained() and not send_verdict.count_open(self.connection)

    def compare(self) -> None:
        self.judged = send_verdict.judge(self.connection, self.chain, self.senders, self.limits)
        self.faults += self.judged.faults + self.faults_of_trust()
        self.faults += verdict.lost_webhooks(verdict.outbox(self.connection), self.receiver)
        self.faults += verdict.not_ready(self.fleet.port)

    def faults_of_trust(self) -> list[str]:
        """Return the faults that a node which is trusted can cause: wrong statuses, and rows that are not final."""
        return self.judged.faults_of_trust

    def figures(self) -> dict[str, Any]:
        return {"transactions": self.judged.figures | {"lies_of_the_node": dict(Counter(self.node.told))}}


class LiarSoak(SendingSoak):
    """With a node beside an honest one that is after money; relayers have limits, and callers cancel and replace."""

    beside_seconds = SendingSoak.beside_seconds + DECEIVED_SECONDS
    limits = send_rows.LIMITS

    def settings(self, stack: ExitStack) -> dict[str, str]:
        settings = super().settings(stack)
        self.deceiver = Deceiver(self.node, SEED)
        # Not one that says it is of another chain, which is not asked for the rest of the run.
        faults = [lie for lie in SEEDED if lie.__name__ != "report_chain"]
        # In turns, as a node that fails is not asked either.
        phases = itertools.cycle([DECEPTIONS, faults, DECEPTIONS, faults, [*DECEPTIONS, HIGH_HEAD], faults])
        self.phases = enumerate(phases, SEED)
        return settings

    def nodes(self) -> list[tuple[str, int]]:
        """Return the liar with a weight that lets it answer nearly always, as long as it seems to be well."""
        return [(self.node.url, 100), (self.chain.url, 1)]

    def create_senders(self) -> Sequence[Sender]:
        relayers = enumerate(self.rows.relayers)
        return [LimitedSender(self.site, relayer, self.chain.ledger, position) for position, relayer in relayers]

    def plan(self) -> list[tuple[float, str]]:
        deceptions, faults = 2 * self.pace.kill_seconds, self.pace.kill_seconds / 2
        length = deceptions + faults
        starts = [number * length + deceptions for number in range(int(self.pace.seconds / length))]
        turns = [(at, NODE_LIES) for start in starts for at in (start, start + faults) if at < self.pace.seconds]
        return sorted([*super().plan(), *turns])

    def start_lies(self) -> None:
        seed, lies = next(self.phases)
        self.node.lie_by_seed(seed, lies, SHARE)

    def drain(self) -> None:
        """Let the node lie on, and nothing else fail, for as long as it takes that blocks become final."""
        self.node.lie_by_seed(SEED, DECEPTIONS, SHARE)
        deadline = time.monotonic() + DECEIVED_SECONDS * self.pace.patience
        while time.monotonic() < deadline and not self.is_drained():
            time.sleep(0.5)
        super().drain()

    def figures(self) -> dict[str, Any]:
        figures = super().figures()
        figures["transactions"]["lies_of_the_node"] |= self.deceiver.told
        return figures


class LiarAloneSoak(LiarSoak):
    """With the lying node alone: its operator is trusted for statuses, and for nothing else."""

    def nodes(self) -> list[tuple[str, int]]:
        return super().nodes()[:1]

    def faults_of_trust(self) -> list[str]:
        return []


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
            self.soak.start_lies()
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
