"""Run callers and senders of the shop, and kill them at every step.

python -m tests.client.outbox.killing '{"counts": [1], "random_kills": 0}'

The environment is that of `tests/client/outbox/shop_settings.py`. At each step, a process is killed when it is reached
for the first time, the second time and so on, as `counts` says. There are as many payouts as that takes.

Each is a process that is forked from this one. Steps are calls of the outbox, which is not changed for this.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import wraps
from typing import Any

import django
from django.core.management import call_command
from django.db import connections

from tests.chaos.children import Child, Orders

# Where a caller is killed: before the row of the outbox is stored, after it, after the commit.
CALLER_STEPS = ("before enqueue", "after enqueue", "after pay")
# Where a sender is killed: rows claimed; before the request, before and after its answer is stored; statuses read, and
# stored; before a receiver writes, and before that is committed.
SENDER_STEPS = (
    "after Claim.__init__",
    "before send",
    "after send",
    "after Claim.save",
    "after read",
    "after Claim.save_all",
    "before receive",
    "after receive",
)
AT_RANDOM = "at random"
# More than a sender sends before any of the counts, fewer than one claim has room for.
OPEN_ROWS = 15
LEASE = timedelta(seconds=2)
Work = Callable[[Orders], None]


class Killer:
    """Kills this process when a step is reached for the n-th time."""

    def __init__(self, step: str, count: int) -> None:
        self.step, self.left = step, count

    def reach(self, step: str) -> None:
        if step != self.step:
            return
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self, owner: Any, name: str, label: str | None = None) -> None:
        """Make a call of a function two steps: before and after it."""
        function, label = getattr(owner, name), label or name

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self.reach(f"before {label}")
            result = function(*args, **kwargs)
            self.reach(f"after {label}")
            return result

        setattr(owner, name, call)


def call(orders: Orders) -> None:
    """Pay one order after the other, from the first that is not paid yet, as a caller that is started again does."""
    from payouts import models  # type: ignore[import-not-found]  # of the example

    killer = Killer(orders["step"], orders["count"])
    killer.watch(models, "enqueue")
    killer.watch(models, "pay")
    for number in itertools.count(models.Payout.objects.count()):
        while open_rows() >= OPEN_ROWS:
            time.sleep(0.05)
        models.pay(str(number), receiver(number), 1)


def open_rows() -> int:
    from relayer_client.outbox.models import OutboxTransaction

    return OutboxTransaction.objects.filter(notified_at=None).count()


def receiver(number: int) -> str:
    """Return an address for each order, so that the chain shows how often it was paid."""
    return f"0x{number + 0xBEEF0000:040x}"


def send(orders: Orders) -> None:
    """Run the command, until it is killed."""
    from django.contrib.auth.models import Group

    from relayer_client import Relayer
    from relayer_client.outbox import claims, following
    from relayer_client.outbox.signals import transaction_finished

    killer = Killer(orders["step"], orders["count"])
    claims.LEASE = LEASE
    killer.watch(claims.Claim, "__init__", "Claim.__init__")
    killer.watch(claims.Claim, "save", "Claim.save")
    killer.watch(claims.Claim, "save_all", "Claim.save_all")
    killer.watch(Relayer, "send")
    killer.watch(following, "read")

    def receive(transaction: Any, **_: Any) -> None:
        killer.reach("before receive")
        # One more for each call whose writes are committed.
        Group.objects.create(name=f"{transaction.key} {time.time_ns()}")
        killer.reach("after receive")

    transaction_finished.connect(receive, weak=False)
    call_command("send_outbox", interval=0.1)


class Campaign:
    """One caller and two senders at a time; whoever is killed is replaced.

    Once everybody was killed who is to be, the caller ends, and the senders when everything is confirmed.
    """

    def __init__(self, counts: list[int], random_kills: int) -> None:
        self.random_kills = random_kills
        self.plans: dict[Work, list[tuple[str, int]]] = {
            work: [(step, count) for count in counts for step in steps]
            for work, steps in ((call, CALLER_STEPS), (send, SENDER_STEPS))
        }
        self.steps: dict[Child, str] = {}
        self.killed: Counter[str] = Counter()
        self.chance = random.Random(1)

    def run(self) -> dict[str, Any]:
        caller, senders = self._start(call), [self._start(send), self._start(send)]
        try:
            while self._kills_are_left((caller, *senders)):
                if not caller.is_running:
                    check_commits()
                    caller = self._replace(caller, call)
                senders = [each if each.is_running else self._replace(each, send) for each in senders]
                self._kill_at_random(senders)
                time.sleep(0.05)
            caller.end()
            while open_rows():
                senders = [each if each.is_running else self._replace(each, send) for each in senders]
                time.sleep(0.05)
        finally:
            for child in (caller, *senders):
                child.end()
        return {"killed": self.killed, **check_end()}

    def _start(self, work: Work) -> Child:
        connections.close_all()
        step, count = self.plans[work].pop(0) if self.plans[work] else (AT_RANDOM, 0)
        child = Child(work)
        child.go(step=step, count=count)
        self.steps[child] = step
        return child

    def _replace(self, child: Child, work: Work) -> Child:
        assert child.was_killed, f"it ended with {child.exit_code}"
        if self.steps[child] != AT_RANDOM:
            self.killed[self.steps[child]] += 1
        return self._start(work)

    def _kill_at_random(self, senders: list[Child]) -> None:
        """Kill a sender now and then that no step will kill."""
        others = [each for each in senders if self.steps[each] == AT_RANDOM]
        if others and self.random_kills and self.chance.random() < 0.2:
            self.random_kills -= 1
            self.killed[AT_RANDOM] += 1
            os.kill(self.chance.choice(others).pid, signal.SIGKILL)

    def _kills_are_left(self, running: Iterable[Child]) -> bool:
        return self.random_kills > 0 or any(self.steps[child] != AT_RANDOM for child in running)


def check_commits() -> None:
    """Whatever was killed, each payout has its row in the outbox, and no row is without a payout."""
    from payouts.models import Payout  # type: ignore[import-not-found]  # of the example

    from relayer_client.outbox.models import OutboxTransaction

    keys = {key.removeprefix("payout-") for key in OutboxTransaction.objects.values_list("key", flat=True)}
    assert keys == {*Payout.objects.values_list("order", flat=True)}


def check_end() -> dict[str, Any]:
    from django.contrib.auth.models import Group
    from payouts.models import Payout

    from relayer_client.outbox.models import OutboxTransaction

    check_commits()
    return {
        "payouts": Counter(Payout.objects.values_list("status", flat=True)),
        "outbox": Counter(OutboxTransaction.objects.values_list("status", flat=True)),
        "reported": Counter(name.partition(" ")[0] for name in Group.objects.values_list("name", flat=True)),
    }


if __name__ == "__main__":
    django.setup()
    call_command("migrate", verbosity=0)
    print(json.dumps(Campaign(**json.loads(sys.argv[1])).run()))
