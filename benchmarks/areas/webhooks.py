"""Webhooks: what one worker sends beside a bare loop, and whether a target that hangs delays another."""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.request import urlopen

import aiohttp

from benchmarks.load import Failed
from tests.processes import stop
from tests.servers import PROJECT, free_port, wait_for_port

ROUNDS = 3
DELIVERIES = 3_000
MAX_SECONDS = 60
# For the second question: events at a steady pace, with three workers.
PACED_EVENTS, PACE_SECONDS, WORKERS = 500, 0.01, 3


def measure(environment: dict[str, str]) -> dict[str, Any]:
    """Return the rates of the bare loop and a worker, measured in turns, and the waits of a fast target."""
    rates: dict[str, list[float]] = {"worker": [], "loop": []}
    waits: dict[str, list[float]] = {"alone": [], "beside_one_that_hangs": []}
    with receiver() as port:
        for _ in range(ROUNDS):
            rates["loop"].append(bare_loop(port))
            rates["worker"].append(one_worker(port, environment))
            waits["alone"].append(fast_p95(port, environment, hanging=False))
            waits["beside_one_that_hangs"].append(fast_p95(port, environment, hanging=True))
    rate = {name: statistics.median(values) for name, values in rates.items()}
    wait = {name: statistics.median(values) for name, values in waits.items()}
    return {
        "worker_to_loop": round(rate["worker"] / rate["loop"], 2),
        "deliveries_per_second": {name: round(value) for name, value in rate.items()},
        "each_round": {name: [round(value) for value in values] for name, values in rates.items()},
        "p95_beside_one_that_hangs_to_alone": round(wait["beside_one_that_hangs"] / wait["alone"], 2),
        "p95_milliseconds": {name: [round(value * 1000) for value in values] for name, values in waits.items()},
    }


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
    env = os.environ | environment | {"WEBHOOK_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8", "WORKER_STOP_SECONDS": "1"}
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


def bare_loop(port: int) -> float:
    from relayer_service.net.outgoing import UNCOMPRESSED_HEADERS

    body = json.dumps({"type": "notification.test", "timestamp": "", "data": {"notification_id": "n" * 36}}).encode()

    async def run() -> None:
        async with aiohttp.ClientSession() as session:
            for number in range(DELIVERIES):
                headers = {**UNCOMPRESSED_HEADERS, "webhook-id": str(number)}
                async with session.post(f"http://127.0.0.1:{port}/", data=body, headers=headers) as response:
                    await response.read()

    asyncio.run(run())
    return rate_of(wait_for(port, DELIVERIES))


def new_target(url: str) -> Any:
    from notifications.models import Notification

    target = Notification(url=url)
    target.set_signing_key("a signing key of some length")
    target.save()
    return target


def emit_to(target: Any) -> str:
    from notifications.events import NOTIFICATION_TEST, emit

    return emit(NOTIFICATION_TEST, target, {"notification_id": target.identifier}).identifier


def clear() -> None:
    from notifications.models import Attempt, Delivery, Notification
    from relayer_service.ops.tasks import queue

    for model in (Attempt, Delivery, Notification):
        model.objects.all().delete()
    queue.flush()


def one_worker(port: int, environment: dict[str, str]) -> float:
    """Return the rate at which a worker sends signed deliveries that are all due."""
    from django.db import transaction

    clear()
    target = new_target(f"http://127.0.0.1:{port}/")
    with transaction.atomic():
        for _ in range(DELIVERIES):
            emit_to(target)
    with workers(1, environment):
        return rate_of(wait_for(port, DELIVERIES))


def fast_p95(port: int, environment: dict[str, str], *, hanging: bool) -> float:
    """Return the 95th percentile of the seconds from an event to its arrival at a receiver that answers at once."""
    clear()
    fast, hung = new_target(f"http://127.0.0.1:{port}/"), new_target(f"http://127.0.0.1:{port}/hang")
    with workers(WORKERS, environment):
        # Once the first event has arrived the workers are running.
        emit_to(fast)
        wait_for(port, 1)
        emitted = {}
        for _ in range(PACED_EVENTS):
            if hanging:
                emit_to(hung)
            emitted[emit_to(fast)] = time.time()
            time.sleep(PACE_SECONDS)
        came = wait_for(port, PACED_EVENTS)
    waits = sorted(came[identifier] - moment for identifier, moment in emitted.items())
    return waits[int(len(waits) * 0.95)]
