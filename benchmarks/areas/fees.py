"""Fee estimates through the processes that `make run` starts, with all their defaults and a stand-in node.

What the service adds to the time of its node with one caller and with many, and whether a slow node holds the process.
"""

import asyncio
import json
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
from benchmarks.databases import Bench, plain_environment, run_apart
from benchmarks.report import Row, Void, medians
from benchmarks.turns import in_turns
from tests.processes import stop
from tests.servers import PROJECT, free_port, wait_for_port

ROUNDS, FAST_ROUNDS = 9, 2
CALLS, FAST_CALLS = 200, 60
CALLERS, TURN_SECONDS, FAST_TURN_SECONDS = 16, 3.0, 1.0
SLOW_CALLERS = 32
# The milliseconds of a relayer's node: none, those of a provider, and many. Relayers are named by them.
QUICK, USUAL, SLOW = 0, 50, 100
# Milliseconds over the bare node call: with one caller, and twice that with many.
MAX_ADDED = 1.5
# A transfer on chain 31337, not signed.
TRANSACTION = "0x02e1827a698080808252089470997970c51812dc3a010c7d01b50e0d17dc79c80180c0"
SENDER = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
METHODS = {
    "feeEstimate": {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "feeEstimate",
        "params": {"fee_token": "BENCH", "network": "evm", "transaction": TRANSACTION},
    }
}
# What the service asks its node for, once prices and fee history are cached.
BARE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "eth_estimateGas",
    "params": [
        {"from": SENDER, "value": "0x1", "data": "0x", "to": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"},
    ],
}


def measure(bench: Bench) -> list[Row]:
    with node.nodes() as url, service(bench.new_folder()) as (port, environment):
        code = f"from benchmarks.areas.fees import create; create({url!r})"
        tokens = json.loads(run_apart(["manage.py", "shell", "--no-imports", "-c", code], environment))
        with asyncio.Runner() as runner:
            clients = Clients(runner, port, url, tokens, fast=bench.fast)
            return [row for method in METHODS for row in clients.rows(method)]


@contextmanager
def service(folder: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Start what `make run` starts, on an empty folder and with no setting but the port."""
    port = free_port()
    environment = plain_environment() | {"DATA_DIR": str(folder), "PORT": str(port)}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        [sys.executable, "-m", "relayer_service.run"], cwd=PROJECT, env=environment, stdout=quiet, stderr=quiet
    )
    try:
        wait_for_port(port, 60, process=process)
        yield port, environment | {"PROFILE": "local", "DJANGO_SETTINGS_MODULE": "relayer_service.settings"}
    finally:
        stop(process)


def create(node_url: str) -> None:
    """Create relayers, fee token and access tokens, one a caller as each has a rate of its own; print the tokens."""
    from django.contrib.auth.models import User
    from django.utils import timezone

    from relayers.models import Relayer
    from rpc.models import FeeToken, PriceSource
    from signers.models import Signer
    from tokens.models import AccessToken

    signer = Signer(identifier="bench", type="plain")
    signer.set_config({"key": "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"})
    signer.save()
    for name in (QUICK, USUAL, SLOW):
        relayer = Relayer(identifier=f"{name}", name=f"{name} ms", network="hardhat", address=SENDER, signer=signer)
        relayer.set_rpc_urls([{"url": f"{node_url}{name}", "weight": 100}])
        relayer.save()
    token = FeeToken.objects.create(network="hardhat", symbol="BENCH", address="0x" + "11" * 20, decimals=6)
    PriceSource.objects.create(
        token=token, kind="fixed", rate_text="3000.5", rate_set_at=timezone.now(), max_age_seconds=86400
    )
    user, _ = User.objects.get_or_create(username="callers")
    print(json.dumps([str(AccessToken.objects.issue(name=f"{n}", user=user)[1]) for n in range(SLOW_CALLERS)]))


class Clients:
    """Callers of the service and of its nodes, from one loop."""

    def __init__(self, runner: asyncio.Runner, port: int, node_url: str, tokens: list[str], *, fast: bool) -> None:
        self.runner, self.port, self.node_url, self.tokens = runner, port, node_url, tokens
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
        allowed = SLOW_CALLERS * 1000 / SLOW
        return [
            added_row(f"{method}: one caller, added", alone, "the bare node call", MAX_ADDED),
            added_row(
                f"{method}: {CALLERS} callers, node of {USUAL} ms, added",
                crowd,
                f"the bare node call, {CALLERS} callers",
                2 * MAX_ADDED,
            ),
            Row(
                f"{method}: {SLOW_CALLERS} callers, node of {SLOW} ms, answers",
                round(medians(rates)["answers/s"] / allowed, 2),
                "x",
                f"the {allowed:g}/s that waiting allows",
                beside=medians(rates, 0),
                rounds={name: [round(each) for each in values] for name, values in rates.items()},
            ),
        ]

    async def one_caller(self, relayer: int, body: Any, *, bare: bool) -> list[float]:
        """Return the seconds of each of some calls, one after the other."""
        async with aiohttp.ClientSession() as session:
            # Each token below its rate.
            return [await self.call(session, relayer, body, number, bare=bare) for number in range(self.calls)]

    async def many_callers(self, callers: int, relayer: int, body: Any, *, bare: bool) -> list[float]:
        """Return the seconds of each call, with callers that begin spread over the node's time, each in a loop."""
        end = time.perf_counter() + self.seconds

        async def caller(number: int) -> list[float]:
            await asyncio.sleep(relayer / 1000 * number / callers)
            waits = []
            while time.perf_counter() < end:
                waits.append(await self.call(session, relayer, body, number, bare=bare))
            return waits

        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            found = await asyncio.gather(*(caller(number) for number in range(callers)))
        return [wait for waits in found for wait in waits]

    async def call(self, session: aiohttp.ClientSession, relayer: int, body: Any, number: int, *, bare: bool) -> float:
        headers = {"Content-Type": "application/json"}
        url = f"{self.node_url}{relayer}"
        if not bare:
            url = f"http://127.0.0.1:{self.port}/api/v1/relayers/{relayer}/rpc"
            headers["Authorization"] = f"Bearer {self.tokens[number % len(self.tokens)]}"
        started = time.perf_counter()
        async with session.post(url, data=orjson.dumps(body), headers=headers) as response:
            answer = orjson.loads(await response.read())
        if "result" not in answer:
            raise Void(f"{url} answered {answer}")
        return time.perf_counter() - started


def median_ms(seconds: list[float]) -> float:
    return medians({"": seconds})[""] * 1000


def added_row(figure: str, found: dict[str, list[float]], against: str, at_most: float) -> Row:
    median = medians(found)
    return Row(
        figure,
        round(median["call ms"] - median["node ms"], 2),
        "ms",
        against,
        at_most=at_most,
        beside=medians(found, 2),
        rounds={name: [round(each, 2) for each in values] for name, values in found.items()},
    )
