"""One random sequence against one lane, in a database transaction that is rolled back."""

from __future__ import annotations

import itertools
import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from django.db import transaction
from django.db.models import DateTimeField, Value
from django.utils import timezone

from chain.errors import ChainFault
from relayer_service.database import compiled, ttl_cache
from relayer_service.database.clock import DatabaseNow
from relayer_service.net import node_http
from tests.notifications.clock import Forgetful
from tests.relayers import factories
from tests.relayers.factories import KEY
from tests.transactions.engines import Engine, Killed, at_step, end_lease, kill
from tests.transactions.hardhat import signed
from tests.transactions.memory_chain import GWEI, URL, MemoryChain, Signed
from transactions.models import OPEN, StatusChange, Transaction
from transactions.records.states import TRANSITIONS
from transactions.requests import accepting, actions

# Reorgs have fewer blocks: deeper ones contradict what is final.
CONFIRMATIONS, FINALITY, REORG = 3, 4, 2
NETWORK = {"chain_id": 31337, "symbol": "ETH", "decimals": 18, "block_seconds": 1}
MAX_REQUESTS, MAX_STEPS, MAX_ROUNDS = 5, 16, 60
START = datetime(2026, 1, 1, 12, tzinfo=UTC)
RECEIVER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
# Outside of database transactions, where a request can be recorded and a worker can be killed.
MOMENTS = ["claimed", "read", "planned", "signed", "committed", "before_broadcast", "broadcast", "outcomes_written"]
# What is recorded after these is late by one call.
BEFORE_BROADCAST = ["claimed", "read", "planned", "signed", "committed"]


class Sequence:
    """One lane and its chain. Each payload has a value of its own, by which it is recognised on the chain."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = START
        self.chain = MemoryChain()
        self.chain.on_arrival = self._arrived
        self.engine = Engine(0)
        self.steps: list[str] = []
        self.violations: list[str] = []
        self._values = itertools.count(1)
        # The payloads of each request, by primary key, and since when they must not leave, by value.
        self.payloads: dict[int, list[int]] = defaultdict(list)
        self.ends: dict[int, datetime] = {}
        # Those that must not leave, and by which step that was recorded.
        self.superseded: dict[int, str] = {}
        self.late: list[str] = []
        self.relayer = factories.relayer(network="hardhat", rpc_urls=[{"url": URL, "weight": 100}])

    def run(self, *, checks_gate: bool) -> None:
        """Take random steps, check after each, stop the faults, and check that everything ends."""
        self._accept()
        for _ in range(self.random.randint(4, MAX_STEPS)):
            chosen = self.random.choices(STEPS, WEIGHTS)[0]
            self.steps.append(chosen.__name__.strip("_"))
            self.now += timedelta(seconds=self.random.choice([0, 1, 5, 20]))
            self._forget_caches()
            chosen(self)
            self._check()
            if self.violations:
                break
        else:
            self._finish()
        if checks_gate:
            self.violations += self.late

    def rows(self, *statuses: str) -> list[Transaction]:
        found = Transaction.objects.filter(kind="request").order_by("pk")
        return list(found.filter(status__in=statuses) if statuses else found)

    def _any(self) -> Transaction:
        return self.random.choice(self.rows())

    def _payload(self) -> dict[str, Any]:
        """Return the values of a request, with a payload of its own."""
        value, seconds = next(self._values), self.random.choice([28_800, 28_800, 30, 300])
        self.ends[value] = self.now + timedelta(seconds=seconds)
        return {"to": RECEIVER, "value": value, "speed": "fast", "valid_until": self.ends[value]}

    def _accept(self) -> None:
        if len(self.payloads) < MAX_REQUESTS:
            values = self._payload()
            row = accepting.accept(accepting.SendRequest(self.relayer.identifier, values)).row
            self.payloads[row.pk].append(values["value"])
            self.engine.lane_pk = row.lane_id

    def _cancel(self) -> None:
        row = self._any()
        with suppress(actions.Refused):
            actions.cancel(row.pk, by="tests")
            self._supersede(row.pk, "canceled")

    def _replace(self) -> None:
        row = self._any()
        values = self._payload()
        with suppress(actions.Refused):
            actions.replace(row.pk, values, by="tests")
            self._supersede(row.pk, "replaced")
            self.payloads[row.pk].append(values["value"])

    def _supersede(self, pk: int, why: str) -> None:
        for value in self.payloads[pk]:
            self.superseded.setdefault(value, why)

    def _speed_up(self) -> None:
        with suppress(actions.Refused):
            actions.speed_up(self._any().pk, {}, by="tests")

    def _turn(self) -> None:
        self.engine.turn()

    def _look(self) -> None:
        with suppress(ChainFault):
            self.engine.look()

    def _kill(self) -> None:
        """End the worker at a moment of its turn; another one has the lane in the next step."""
        moment = self.random.choice(MOMENTS)
        self.steps[-1] += f" at {moment}"
        with at_step(moment, kill), suppress(Killed):
            self.engine.turn()
        self._restart()

    def _restart(self) -> None:
        self.engine.die()
        end_lease(self.engine.lane_pk)

    def _request_during_turn(self) -> None:
        """Cancel or replace while a turn is at work."""
        moment = self.random.choice(BEFORE_BROADCAST)
        request = self.random.choice([self._cancel, self._replace])
        self.steps[-1] += f" at {moment}"
        with at_step(moment, request):
            self.engine.turn()

    def _mine(self) -> None:
        self.chain.mine()
        self._look()

    def _reorg(self) -> None:
        self.chain.reorg(self.random.randint(1, REORG), keeps=self.random.random() < 0.7)

    def _expire(self) -> None:
        """Go to the end of a payload, or to that of all of them."""
        ends = [end for end in self.ends.values() if end > self.now] or [self.now]
        self.now = self.random.choice([min(ends), max(ends)])

    def _outage(self) -> None:
        self.chain.is_down = not self.chain.is_down

    def _lose_answers(self) -> None:
        self.chain.loses_answers = not self.chain.loses_answers

    def _hide_receipts(self) -> None:
        self.chain.hides_receipts = not self.chain.hides_receipts

    def _refuse_payloads(self) -> None:
        self.chain.refuses_payloads = not self.chain.refuses_payloads

    def _use_nonce_elsewhere(self) -> None:
        """Let another program with the same key send, at a price that overtakes everything."""
        nonce = self.chain.count(factories.ADDRESS)
        fees = {"maxFeePerGas": 900 * GWEI, "maxPriorityFeePerGas": 900 * GWEI}
        overtaking = Signed.read(signed(KEY, nonce, value=0, data=b"elsewhere", **fees))
        self.chain.mempool[overtaking.sender, nonce] = overtaking

    def _drop(self) -> None:
        """Let the node forget what is not mined."""
        self.chain.mempool.clear()

    def _arrived(self, received: Signed) -> None:
        """Note a payload that must not leave any more; no-ops have no value."""
        is_expired = received.value and self.now >= self.ends[received.value]
        if why := self.superseded.get(received.value, "expired" if is_expired else ""):
            self.late.append(f"payload {received.value} arrived in step {len(self.steps)}, and was {why} before")

    @staticmethod
    def _forget_caches() -> None:
        # Their time is that of the process, which stands still here.
        ttl_cache.clear_all()

    def _finish(self) -> None:
        self.steps.append("finish")
        self.chain.is_down = self.chain.loses_answers = False
        self.chain.hides_receipts = self.chain.refuses_payloads = False
        self._restart()
        for _ in range(MAX_ROUNDS):
            if not self.rows(*OPEN):
                self._check()
                return
            self._forget_caches()
            self.engine.turn()
            self._mine()
            for _ in range(FINALITY):
                self.chain.mine(is_empty=True)
            self._look()
            self.now += timedelta(seconds=20)
            self._restart()
        stuck = [(row.status, row.nonce, row.status_reason) for row in self.rows(*OPEN)]
        self.violations.append(f"not final after {MAX_ROUNDS} blocks: {stuck}")

    def _check(self) -> None:
        self.violations += [*self._wrong_changes(), *self._wrong_executions()]

    def _wrong_changes(self) -> Iterator[str]:
        allowed = {(str(status), str(each.to)) for each in TRANSITIONS for status in each.statuses}
        last: dict[int, str] = {}
        changes = StatusChange.objects.order_by("transaction_id", "version")
        for pk, before, after in changes.values_list("transaction_id", "from_status", "to_status"):
            # Accepted, or a row that begins with what is on the chain.
            if before and (before, after) not in allowed:
                yield f"{pk} changed from {before} to {after}"
            if before and last.get(pk, before) != before:
                yield f"{pk} changed from {before}, and was {last[pk]}"
            last[pk] = after
        for pk, status in Transaction.objects.filter(pk__in=last).values_list("pk", "status"):
            if last[pk] != status:
                yield f"{pk} is {status}, and its last change is to {last[pk]}"

    def _wrong_executions(self) -> Iterator[str]:
        executed = [each for each in self.chain.mined if each.value]
        for row in self.rows():
            own = [each for each in executed if each.value in self.payloads[row.pk]]
            if len(own) > 1:
                yield f"{row.pk} was executed {len(own)} times"
            results = [(each.value, each.succeeds) for each in own]
            if row.status == "confirmed" and results != [(row.value, True)]:
                yield f"{row.pk} is confirmed with {row.value}, and the chain has {results}"
            if row.status in {"canceled", "expired"} and results:
                yield f"{row.pk} is {row.status}, and the chain has {results}"
            if row.status == "failed" and any(succeeds for _, succeeds in results):
                yield f"{row.pk} is failed, and the chain has {results}"


WEIGHTED: dict[Callable[[Sequence], None], int] = {
    Sequence._turn: 8,
    Sequence._mine: 6,
    Sequence._accept: 4,
    Sequence._kill: 4,
    Sequence._cancel: 3,
    Sequence._replace: 3,
    Sequence._request_during_turn: 3,
    Sequence._expire: 2,
    Sequence._outage: 2,
    Sequence._speed_up: 1,
    Sequence._lose_answers: 1,
    Sequence._hide_receipts: 1,
    Sequence._refuse_payloads: 1,
    Sequence._use_nonce_elsewhere: 1,
    Sequence._reorg: 2,
    Sequence._drop: 1,
}
STEPS, WEIGHTS = [*WEIGHTED], [*WEIGHTED.values()]


@contextmanager
def simulated(sequence: Any) -> Iterator[None]:
    """Let the clock of the process and the database, and the node, be those of a sequence."""

    def as_sql(self: Any, compiler: Any, connection: Any, **context: Any) -> Any:
        return compiler.compile(Value(sequence.now, output_field=DateTimeField()))

    with ExitStack() as stack:
        stack.enter_context(patch.object(timezone, "now", lambda: sequence.now))
        for name in ("as_sqlite", "as_postgresql"):
            stack.enter_context(patch.object(DatabaseNow, name, as_sql))
        # The time is a constant of each statement: none is kept.
        stack.enter_context(patch.object(compiled, "_compiled", Forgetful()))
        stack.enter_context(patch.object(node_http, "post", sequence.chain.post))
        yield


def run(seed: int, *, checks_gate: bool = False) -> Sequence:
    """Run one sequence in a database transaction that is rolled back."""
    with transaction.atomic():
        sequence = Sequence(seed)
        with simulated(sequence):
            sequence.run(checks_gate=checks_gate)
        transaction.set_rollback(True)
    return sequence


def write_network(folder: Path) -> str:
    """Write a file with the network of the sequences, and return its path."""
    entry = {**NETWORK, "confirmations": CONFIRMATIONS, "finality_depth": FINALITY}
    path = folder / "networks.json"
    path.write_text(json.dumps({"networks": {"hardhat": entry}}))
    return str(path)
