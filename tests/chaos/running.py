"""One case: send, kill, check, restart, until everything is final. Runs in a process that was forked for it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from django.core.management import call_command
from django.db import connection, connections
from psycopg.conninfo import make_conninfo

from relayer_service.background import tasks
from relayer_service.background.queues import create_queue
from relayer_service.database.clock import DatabaseNow
from relayers.models import Relayer
from tests.api import Api
from tests.chain.hardhat import Chain, NodeError
from tests.chaos.cases import ACCEPT, BUMP, CANCEL, QUIET, REFINED, REPLACE, REQUEUE, SEAL, Case
from tests.chaos.children import Child, Orders, crash_at
from tests.transactions import accounts
from tests.transactions.accounts import Sender
from tests.transactions.engines import is_final, let_time_pass
from tests.transactions.limits import policy
from tests.transactions.mempool import MempoolChain
from tests.transactions.oracle import Oracle
from transactions.models import Lane, Status, Transaction
from transactions.records import crash_points

# Without any progress: how long a case takes depends on the machine.
PATIENCE_SECONDS = 300.0
WORKER = "chaos-worker"
CUT = "The database connections are cut."


def run(order: dict[str, Any]) -> dict[str, Any]:
    """Run a case with the database and chain of the order; return violations and the number of kills."""
    folder = Path(order["folder"])
    folder.mkdir()
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    connections.settings["default"]["NAME"] = order["database"]
    tasks.queue.storage = create_queue(f"sqlite:{folder / 'tasks.sqlite3'}").storage
    tasks.queue.storage.initialize_schema()
    case = Case.from_json(order["case"])
    # Before this process opens anything that a forked one must not share.
    acceptors = [Child(accept) for _ in range(2)]
    changers = [Child(change) for _ in range(2)]
    rounds = [[Child(work) for _ in range(case.workers)] for _ in range(len(case.kills) + 2)]
    try:
        return Run(case, order, acceptors, changers, rounds).result()
    finally:
        for child in [*acceptors, *changers, *(child for workers in rounds for child in workers)]:
            child.end()


def accept(orders: Orders) -> None:
    user = client(orders)
    for name in orders["names"]:
        user.send(accounts.ledger_id(name), key=name)


def change(orders: Orders) -> None:
    """Cancel, replace or speed up a transaction."""
    user, identifier = client(orders), orders["transaction"]
    if orders["scenario"] == CANCEL:
        answer = user.cancel(identifier)
    elif orders["scenario"] == REPLACE:
        answer = user.replace(identifier, accounts.ledger_id(orders["name"]))
    else:
        answer = user.speed_up(identifier)
    assert answer.status == 200, answer.text


def client(orders: Orders) -> Sender:
    """Return a client, in a process that ends at a step."""
    if orders["crash_at"]:
        crash_at(orders["crash_at"])
    return Sender(
        relayer=Relayer.objects.get(identifier=orders["relayer"]),
        key="",
        api=Api(orders["token"]),
        ledger=orders["ledger"],
    )


def work(orders: Orders) -> None:
    """Be a worker that ends at a step, or whose database connections are cut there."""
    if orders["crash_at"]:
        name, _, count = orders["crash_at"].partition(":")
        crash_at(f"{REFINED.get(name, name)}:{count}")
        if orders["cuts"]:
            connection.settings_dict["OPTIONS"]["application_name"] = WORKER
            crash_points._reached = at_count(int(count), cut_connections)
        elif name == "commit_sent":
            crash_points._reached = at_count(int(count), end_once_commit_is_sent)
    call_command("worker")


class QuietChain(MempoolChain):
    """A chain that a case has for itself: no blocks but those that it mines."""

    def __init__(self, url: str, ledger: str) -> None:
        Chain.__init__(self, url)
        self.ledger = ledger
        self.start_over()
        self.drop()

    def block(self, count: int = 1) -> None:
        """Mine blocks without snapshots, as none is replaced."""
        for _ in range(count):
            self.set_next_base_fee(self.base_fee)
            self.mine()


class Run:
    def __init__(
        self,
        case: Case,
        order: dict[str, Any],
        acceptors: list[Child],
        changers: list[Child],
        rounds: list[list[Child]],
    ) -> None:
        self.case, self.acceptors, self.changers, self.rounds = case, acceptors, changers, rounds
        self.log = Path(order["folder"]) / "log"
        self.quiet_chain = QuietChain(order["quiet_chain"], order["ledger"]) if case.scenario in QUIET else None
        self.chain = self.quiet_chain or Chain(order["chain"])
        self.name = f"case-{order['number']}-{order['run']}"
        # Limits that nothing exceeds: after every kill, each must be the sum of its charges.
        limits = policy(max_value_per_day=str(10**18), max_gas_cost_per_day=str(10**18))
        self.sender = accounts.sender(self.chain, order["ledger"], self.name, spending=limits)
        self.oracle = Oracle(
            self.chain,
            order["ledger"],
            since=int(self.chain.rpc("eth_blockNumber"), 16),
            secrets=self.sender.secrets,
        )
        self.violations: list[str] = []
        self.kills = 0
        self.progress: object = None
        self.deadline = 0.0

    def result(self) -> dict[str, Any]:
        started = time.monotonic()
        try:
            self._send()
            if self.quiet_chain is not None:
                self._prepare(self.quiet_chain, self.rounds.pop())
            if self.case.scenario != ACCEPT and not self.case.kills_request:
                for kill, workers in zip(self.case.kills, self.rounds, strict=False):
                    self._kill(kill, workers)
            self._finish(self.rounds[-1])
        except TimeoutError as error:
            self.violations.append(f"4: stuck: {error}")
            self.violations += self.oracle.lost_or_open()
        if self.case.must_be_reached and self.kills < len(self.case.kills):
            self.violations.append(f"{self.case.kills[self.kills]} was not reached")
        return {"violations": self.violations, "kills": self.kills, "seconds": time.monotonic() - started}

    def _send(self) -> None:
        """Accept the transactions; where that is killed, the caller tries again with the same keys."""
        if self.case.scenario == SEAL:
            self._seal()
        names = [f"{self.name}-{number}" for number in range(self.case.transactions)]
        self._call(self.acceptors, self.case.scenario == ACCEPT, names=names)
        rows = {row.idempotency_key: row.identifier for row in Transaction.objects.filter(kind="request")}
        self.oracle.accepted = {rows.get(name, name): accounts.ledger_id(name) for name in names}

    def _call(self, callers: list[Child], is_killed: bool, **orders: Any) -> None:
        """Have clients call, one after the other, the first of which may be killed."""
        shared = {"relayer": self.name, "token": self.sender.api.token, "ledger": self.oracle.ledger}
        for caller, point in zip(callers, (self.case.kills[0] if is_killed else "", ""), strict=True):
            caller.go(**shared, **orders, crash_at=point)
            self._wait("calling", partial(has_ended, caller))
            self.kills += caller.was_killed
            if not caller.was_killed and caller.exit_code:
                raise RuntimeError(f"calling failed: {self.log.read_text()}")
            self.violations += self.oracle.violations_now()

    def _change(self) -> None:
        """Cancel, replace or speed up the first transaction; where that is killed, the caller tries again."""
        first = Transaction.objects.filter(kind="request").order_by("sequence")[0].identifier
        name = f"{self.name}-replacement"
        self.oracle.replacements[first].append(accounts.ledger_id(name))
        scenario, is_killed = self.case.scenario, self.case.kills_request
        self._call(self.changers, is_killed, scenario=scenario, transaction=first, name=name)

    def _seal(self) -> None:
        """Let the lane close nonces with no-ops, as after a restore."""
        self.sender.send(accounts.ledger_id(f"{self.name}-0"), key=f"{self.name}-0")
        Lane.objects.update(window=1)
        call_command("hold_lanes", restored=True, verbosity=0)

    def _prepare(self, chain: QuietChain, workers: list[Child]) -> None:
        """Have everything submitted, and then happen to it what the scenario is about."""
        for worker in workers:
            worker.go(crash_at="", cuts=False)
        submitted = Transaction.objects.filter(status=Status.SUBMITTED)
        self._wait("not submitted", lambda: submitted.count() == self.case.transactions)
        for worker in workers:
            worker.end()
        if self.case.scenario == REQUEUE:
            self.oracle.outside.add(chain.spend_nonce(self.sender.key, self.sender.address))
        else:
            # So that nothing is mined before its price is raised.
            chain.base_fee *= 20
        chain.block()
        if self.case.scenario not in {BUMP, REQUEUE}:
            self._change()
        # Long enough for a price to be raised, and for the lease of the worker above to end.
        let_time_pass(600)

    def _kill(self, point: str, workers: list[Child]) -> None:
        for worker in workers:
            worker.go(crash_at=point, cuts=self.case.cuts)
        self._wait(f"{point} is not reached", lambda: self._is_over(workers))
        self.kills += self.log.read_text().count(CUT) or sum(worker.was_killed for worker in workers)
        for worker in workers:
            if not worker.is_running and not worker.was_killed:
                self.violations.append(f"a worker ended by itself: {self.log.read_text()[-2000:]}")
            worker.end()
        if point.startswith("broadcast_first"):
            self._lose_all_but_the_first()
        self.violations += self.oracle.violations_now()
        if self.case.after_lease:
            self._wait("the lease", lambda: not Lane.objects.filter(due_at__gt=DatabaseNow()).exists())

    def _lose_all_but_the_first(self) -> None:
        """Take from the mempool what would have been sent after the kill."""
        address = self.sender.address.lower()
        own = [one for one in self.chain.rpc("eth_pendingTransactions") if one["from"] == address]
        for one in sorted(own, key=lambda each: int(each["nonce"], 16))[1:]:
            # It may be in a block by now.
            with suppress(NodeError):
                self.chain.rpc("hardhat_dropTransaction", one["hash"])

    def _is_over(self, workers: list[Child]) -> bool:
        """Whether all workers were killed, or have done everything."""
        return not any(worker.is_running for worker in workers) or is_final()

    def _finish(self, workers: list[Child]) -> None:
        for worker in workers:
            worker.go(crash_at="", cuts=False)
        self._wait("not final", is_final)
        for worker in workers:
            worker.end()
        self.violations += self.oracle.violations_at_rest(self.log.read_text())

    def _wait(self, what: str, condition: Callable[[], object]) -> None:
        self.progress = None
        while not condition():
            self._check_progress(what)
            if self.quiet_chain is not None and what != "not submitted":
                self.quiet_chain.block()
            time.sleep(0.1)

    def _check_progress(self, what: str) -> None:
        """Raise `TimeoutError` if nothing has changed for long."""
        progress = list(Transaction.objects.order_by("pk").values_list("pk", "version"))
        if progress != self.progress:
            self.progress, self.deadline = progress, time.monotonic() + PATIENCE_SECONDS
        elif time.monotonic() > self.deadline:
            raise TimeoutError(what)


def has_ended(child: Child) -> bool:
    return not child.is_running


def at_count(count: int, function: Callable[[], None]) -> Callable[[], None]:
    """Return what happens at a step: the function at its count-th time, and nothing else."""
    left = count

    def reached() -> None:
        nonlocal left
        left -= 1
        if not left:
            function()

    return reached


def end_once_commit_is_sent() -> None:
    """Have this process end during the commit of the current transaction, before it can know the outcome."""

    def commit() -> None:
        if connection.vendor == "postgresql":
            server = connection.connection.pgconn
            server.send_query(b"COMMIT")
            while server.flush():
                pass
        else:
            connection.connection.commit()
        os.kill(os.getpid(), signal.SIGKILL)

    connection._commit = commit  # type: ignore[attr-defined]  # of this thread's connection


def cut_connections() -> None:
    """End the database connections of the workers, as a failing server does."""
    print(CUT, file=sys.stderr, flush=True)
    configured = connection.settings_dict
    parameters = {"host": "HOST", "port": "PORT", "user": "USER", "password": "PASSWORD", "dbname": "NAME"}
    given = {name: str(configured[key]) for name, key in parameters.items() if configured[key]}
    with psycopg.connect(make_conninfo(**given), autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = %s",
            [WORKER],
        )
