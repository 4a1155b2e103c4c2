"""Fee estimates through the processes that `make run` starts, with all their defaults and a stand-in node.

What the service adds to the time of its node with one caller and with many, and whether a slow node holds the process.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from benchmarks import node
from benchmarks.databases import Bench, plain_environment
from benchmarks.report import Failed, Row, medians
from benchmarks.rpc import BARE, METHODS, create_apart, relayer_id
from benchmarks.turns import in_turns
from tests.processes import stop
from tests.servers import PROJECT, free_port, wait_for_port

ROUNDS, FAST_ROUNDS = 9, 2
CALLS, FAST_CALLS = 200, 60
CALLERS, TURN_SECONDS, FAST_TURN_SECONDS = 16, 3.0, 0.5
SLOW_CALLERS = 32
# The milliseconds of a relayer's node: none, those of a provider, and many.
QUICK, USUAL, SLOW = 0, 50, 100
# Milliseconds over the bare node call by method: with one caller, and with many.
MAX_ADDED = {"feeEstimate": (2.0, 6.0)}


def measure(bench: Bench) -> list[Row]:
    with node.nodes(QUICK, USUAL, SLOW) as urls, service(bench.new_folder()) as (port, environment):
        # One a caller, as each has a rate of its own.
        tokens = create_apart(environment, urls, SLOW_CALLERS)
        with asyncio.Runner() as runner:
            clients = Clients(runner, port, urls, tokens, fast=bench.fast)
            return [row for method in METHODS for row in clients.rows(method)]


@contextmanager
def service(folder: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Start what `make run` starts, on an empty folder and with no setting but the port."""
    port = free_port()
    environment = plain_environment() | {"DATA_DIR": str(folder), "PORT": str(port)}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        [sys.executable, "-m", "relayer_service.local.run"], cwd=PROJECT, env=environment, stdout=quiet, stderr=quiet
    )
    try:
        wait_for_port(port, 60, process=process)
        yield port, environment | {"PROFILE": "local", "DJANGO_SETTINGS_MODULE": "relayer_service.settings"}
    finally:
        stop(process)


class Clients:
    """Callers of the service and of its nodes, from one loop."""

    def __init__(
        self, runner: asyncio.Runner, port: int, urls: dict[int, str], tokens: list[str], *, fast: bool
    ) -> None:
        self.runner, self.port, self.urls, self.tokens = runner, port, urls, tokens
        self.rounds = FAST_ROUNDS if fast else ROUNDS
        self.calls = FAST_CALLS if fast else CALLS
        self.seconds = FAST_TURN_SECONDS if fast else TURN_SECONDS

    def rows(self, method: str) -> list[Row]:
        def one(body: Any, *, bare: bool) -> Callable[[], float]:
            return lambda: median_ms(self.runner.run(self.one_caller(QUICK, body, bare=bare)))

        def many(body: Any, *, bare: bool) -> Callable[[], float]:
            return lambda: median_ms(self.runner.run(self.many_callers(CALLERS, USUAL, body, bare=bare)))

        def slow() -> float:
            waits = self.runner.run(self.many_callers(SLOW_CALLERS, SLOW, body, bare=False))
            return len(waits) / self.seconds

        body = METHODS[method]
        turns = {"node ms": one(BARE, bare=True), "call ms": one(body, bare=False)}
        alone = in_turns(turns, self.rounds)
        turns = {"node ms": many(BARE, bare=True), "call ms": many(body, bare=False)}
        crowd = in_turns(turns, self.rounds)
        rates = in_turns({"answers/s": slow}, min(4, self.rounds))
        allowed, (max_alone, max_in_crowd) = SLOW_CALLERS * 1000 / SLOW, MAX_ADDED.get(method, (None, None))
        return [
            added_row(f"{method}: one caller, added", alone, "the bare node call", max_alone),
            added_row(
                f"{method}: {CALLERS} callers, node of {USUAL} ms, added",
                crowd,
                f"the bare node call, {CALLERS} callers",
                max_in_crowd,
            ),
            Row(
                f"{method}: {SLOW_CALLERS} callers, node of {SLOW} ms, answers",
                round(medians(rates)["answers/s"] / allowed, 2),
                "x",
                f"the {allowed:g}/s that waiting allows",
                beside=medians(rates, 0),
            ),
        ]

    async def one_caller(self, milliseconds: int, body: Any, *, bare: bool) -> list[float]:
        """Return the seconds of each of some calls, one after the other."""
        async with aiohttp.ClientSession() as session:
            # Each token below its rate.
            return [await self.call(session, milliseconds, body, number, bare=bare) for number in range(self.calls)]

    async def many_callers(self, callers: int, milliseconds: int, body: Any, *, bare: bool) -> list[float]:
        """Return the seconds of each call, with callers that begin spread over the node's time, each in a loop."""
        end = time.perf_counter() + self.seconds

        async def caller(number: int) -> list[float]:
            await asyncio.sleep(milliseconds / 1000 * number / callers)
            waits = []
            while time.perf_counter() < end:
                waits.append(await self.call(session, milliseconds, body, number, bare=bare))
            return waits

        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            found = await asyncio.gather(*(caller(number) for number in range(callers)))
        return [wait for waits in found for wait in waits]

    async def call(
        self, session: aiohttp.ClientSession, milliseconds: int, body: Any, number: int, *, bare: bool
    ) -> float:
        headers = {"Content-Type": "application/json"}
        url = self.urls[milliseconds]
        if not bare:
            url = f"http://127.0.0.1:{self.port}/api/v1/relayers/{relayer_id(milliseconds)}/rpc"
            headers["Authorization"] = f"Bearer {self.tokens[number % len(self.tokens)]}"
        started = time.perf_counter()
        async with session.post(url, data=orjson.dumps(body), headers=headers) as response:
            answer = orjson.loads(await response.read())
        if "result" not in answer:
            raise Failed(f"{url} answered {answer}")
        return time.perf_counter() - started


def median_ms(seconds: list[float]) -> float:
    return medians({"": seconds})[""] * 1000


def added_row(figure: str, found: dict[str, list[float]], against: str, at_most: float | None) -> Row:
    median = medians(found)
    return Row(
        figure,
        round(median["call ms"] - median["node ms"], 2),
        "ms",
        against,
        at_most=at_most,
        beside=medians(found, 2),
    )
