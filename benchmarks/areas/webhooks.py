"""Webhooks: what one worker sends beside a bare loop, and whether a target that hangs delays another."""

import asyncio
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.request import urlopen

import aiohttp

from benchmarks.databases import Bench
from benchmarks.report import Failed, Row, medians
from benchmarks.turns import in_turns
from tests.processes import stop
from tests.servers import PROJECT, free_port, wait_for_port

ROUNDS, FAST_ROUNDS = 3, 1
DELIVERIES, FAST_DELIVERIES = 3_000, 500
MAX_SECONDS = 60
# For the second question: events at a steady pace, with three workers.
PACED_EVENTS, FAST_PACED_EVENTS, PACE_SECONDS = 500, 100, 0.01
WORKERS, FAST_WORKERS = 3, 1


def measure(bench: Bench) -> list[Row]:
    with bench.postgresql() as database, receiver() as port:
        os.environ.update(database.environment, LOG_LEVEL="ERROR")
        import django
        from django.db import connections

        django.setup()
        # Thousands of events in one transaction are more than wait to be pushed; the workers find them all the same.
        logging.getLogger("relayer_service.background.queues").setLevel(logging.CRITICAL)
        try:
            return Webhooks(port, database.environment, fast=bench.fast).rows()
        finally:
            connections.close_all()


@contextmanager
def receiver() -> Iterator[int]:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.receiver", str(port)], cwd=PROJECT)
    try:
        wait_for_port(port)
        yield port
    finally:
        stop(process)


@contextmanager
def workers(count: int, environment: dict[str, str]) -> Iterator[None]:
    env = environment | {"WEBHOOK_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8"}
    command = [sys.executable, "manage.py", "worker"]
    with ExitStack() as stack:
        for _ in range(count):
            quiet = subprocess.DEVNULL
            stack.callback(stop, subprocess.Popen(command, env=env, cwd=PROJECT, stdout=quiet, stderr=quiet))
        yield


def read(port: int, path: str) -> Any:
    with urlopen(f"http://127.0.0.1:{port}/{path}") as answer:
        return json.load(answer)


def wait_for(port: int, count: int) -> dict[str, float]:
    """Return when each webhook arrived, once that many have."""
    deadline = time.monotonic() + MAX_SECONDS
    while read(port, "count") < count and time.monotonic() < deadline:
        time.sleep(0.2)
    arrived = read(port, "arrived")
    if len(arrived) != count:
        raise Failed(f"{len(arrived)} webhooks came instead of {count}")
    return dict(arrived)


def rate_of(times: dict[str, float]) -> float:
    return (len(times) - 1) / (max(times.values()) - min(times.values()))


def bare_loop(port: int, deliveries: int) -> float:
    from relayer_service.net.outgoing import UNCOMPRESSED_HEADERS

    body = json.dumps({"type": "notification.test", "timestamp": "", "data": {"notification_id": "n" * 36}}).encode()

    async def run() -> None:
        async with aiohttp.ClientSession() as session:
            for number in range(deliveries):
                headers = {**UNCOMPRESSED_HEADERS, "webhook-id": str(number)}
                async with session.post(f"http://127.0.0.1:{port}/", data=body, headers=headers) as response:
                    await response.read()

    asyncio.run(run())
    return rate_of(wait_for(port, deliveries))


def new_target(url: str) -> Any:
    from notifications.models import Notification

    target = Notification(url=url)
    target.set_signing_key("a signing key of some length")
    target.save()
    return target


def emit_to(target: Any) -> str:
    from notifications.delivery.creating import create_deliveries
    from notifications.emitting import wake
    from notifications.events import NOTIFICATION_TEST

    created = create_deliveries(NOTIFICATION_TEST, [target], {"notification_id": target.identifier})
    wake(created)
    return created[target.pk]


def clear() -> None:
    from notifications.models import Attempt, Delivery, Notification
    from relayer_service.background.tasks import queue

    for model in (Attempt, Delivery, Notification):
        model.objects.all().delete()
    queue.flush()


class Webhooks:
    """Deliveries to one receiver, from workers that are started for each turn."""

    def __init__(self, port: int, environment: dict[str, str], *, fast: bool) -> None:
        self.port, self.environment = port, environment
        self.rounds = FAST_ROUNDS if fast else ROUNDS
        self.deliveries = FAST_DELIVERIES if fast else DELIVERIES
        self.workers = FAST_WORKERS if fast else WORKERS
        self.paced = FAST_PACED_EVENTS if fast else PACED_EVENTS

    def rows(self) -> list[Row]:
        turns = {"loop/s": lambda: bare_loop(self.port, self.deliveries), "worker/s": self.one_worker}
        rates = in_turns(turns, self.rounds, warm_up=False)
        waits = in_turns(
            {
                "alone ms": lambda: self.fast_p95(hanging=False),
                "beside it ms": lambda: self.fast_p95(hanging=True),
            },
            self.rounds,
            warm_up=False,
        )
        rate, wait = medians(rates), medians(waits)
        return [
            Row(
                "one worker, deliveries",
                round(rate["worker/s"] / rate["loop/s"], 2),
                "x",
                "a bare loop of the HTTP client",
                beside=medians(rates, 0),
            ),
            Row(
                "p95 of a fast target beside one that hangs",
                round(wait["beside it ms"] / wait["alone ms"], 2),
                "x",
                "the same target alone",
                beside=medians(waits, 0),
            ),
        ]

    def one_worker(self) -> float:
        """Return the rate at which a worker sends signed deliveries that are all due."""
        from django.db import transaction

        clear()
        target = new_target(f"http://127.0.0.1:{self.port}/")
        with transaction.atomic():
            for _ in range(self.deliveries):
                emit_to(target)
        with workers(1, self.environment):
            return rate_of(wait_for(self.port, self.deliveries))

    def fast_p95(self, *, hanging: bool) -> float:
        """Return the 95th percentile of the ms from an event to its arrival at a receiver that answers at once."""
        clear()
        fast, hung = (new_target(f"http://127.0.0.1:{self.port}/{path}") for path in ("", "hang"))
        with workers(self.workers, self.environment):
            # Once the first event has arrived the workers are running.
            emit_to(fast)
            wait_for(self.port, 1)
            emitted = {}
            for _ in range(self.paced):
                if hanging:
                    emit_to(hung)
                emitted[emit_to(fast)] = time.time()
                time.sleep(PACE_SECONDS)
            came = wait_for(self.port, self.paced)
        waits = sorted(came[identifier] - moment for identifier, moment in emitted.items())
        return waits[int(len(waits) * 0.95)] * 1000
