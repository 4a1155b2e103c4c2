"""Fee estimates through the processes that `make run` starts, with all their defaults.

What the service adds to the time of its node, and whether waiting for a slow node holds the process.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import orjson

from benchmarks.load import Failed
from tests.processes import stop
from tests.servers import PROJECT, free_port, wait_for_port

ROUNDS, CALLS = 5, 200
CALLERS, SLOW_SECONDS, TURN_SECONDS = 32, 0.1, 5
RELAYERS = {"quick": 0.0, "slow": SLOW_SECONDS}
# A transfer on chain 31337, not signed.
TRANSACTION = "0x02e1827a698080808252089470997970c51812dc3a010c7d01b50e0d17dc79c80180c0"
SENDER = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
ESTIMATE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "feeEstimate",
    "params": {"fee_token": "BENCH", "network": "evm", "transaction": TRANSACTION},
}
# What the service asks its node for, once prices and fee history are cached.
BATCH = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "eth_estimateGas",
    "params": [
        {"from": SENDER, "value": "0x1", "data": "0x", "to": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"},
    ],
}


def measure() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, nodes() as urls, service(folder) as (port, environment):
        tokens = rows(environment, urls)
        return asyncio.run(compare(port, urls, tokens))


@contextmanager
def nodes() -> Iterator[dict[str, str]]:
    """Run a node for each relayer; yield their URLs."""
    processes, urls = [], {}
    try:
        for name, wait in RELAYERS.items():
            port = free_port()
            command = [sys.executable, "-m", "benchmarks.node", str(port), str(wait)]
            processes.append(subprocess.Popen(command, cwd=PROJECT))
            wait_for_port(port)
            urls[name] = f"http://127.0.0.1:{port}/"
        yield urls
    finally:
        for process in processes:
            stop(process)


@contextmanager
def service(folder: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Start what `make run` starts, on an empty folder and with no setting but the port."""
    port = free_port()
    unset = {"DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "PROFILE", "WEB_PROCESSES", "LOG_FORMAT"}
    secrets = {"SECRET_KEY", "ENCRYPTION_KEYS", "TOKEN_PEPPERS", "PROMETHEUS_MULTIPROC_DIR"}
    environment = {name: value for name, value in os.environ.items() if name not in unset | secrets}
    environment |= {"DATA_DIR": folder, "PORT": str(port)}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        [sys.executable, "-m", "relayer_service.run"], cwd=PROJECT, env=environment, stdout=quiet, stderr=quiet
    )
    try:
        wait_for_port(port, 60)
        yield port, environment | {"PROFILE": "local"}
    finally:
        stop(process)


def rows(environment: dict[str, str], urls: dict[str, str]) -> list[str]:
    """Create the relayers, the fee token and the access tokens: one a caller, as each has a rate of its own."""
    code = f"from benchmarks.rpc import create; create({urls!r})"
    command = [sys.executable, "manage.py", "shell", "--no-imports", "-c", code]
    env = environment | {"DJANGO_SETTINGS_MODULE": "relayer_service.settings"}
    done = subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, check=True)
    return list(orjson.loads(done.stdout.splitlines()[-1]))


def create(urls: dict[str, str]) -> None:
    from django.contrib.auth.models import User
    from django.utils import timezone

    from relayers.models import Relayer
    from rpc.models import FeeToken, PriceSource
    from signers.models import Signer
    from tokens.models import AccessToken

    signer = Signer(identifier="bench", type="plain")
    signer.set_config({"key": "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"})
    signer.save()
    for name, url in urls.items():
        relayer = Relayer(identifier=name, name=name, network="hardhat", address=SENDER, signer=signer)
        relayer.set_rpc_urls([{"url": url, "weight": 100}])
        relayer.save()
    token = FeeToken.objects.create(network="hardhat", symbol="BENCH", address="0x" + "11" * 20, decimals=6)
    PriceSource.objects.create(
        token=token, kind="fixed", rate_text="3000.5", rate_set_at=timezone.now(), max_age_seconds=86400
    )
    user = User.objects.create_user("benchmarks")
    issued = [str(AccessToken.objects.issue(name=f"caller {n}", user=user)[1]) for n in range(CALLERS)]
    print(orjson.dumps(issued).decode())


async def compare(port: int, urls: dict[str, str], tokens: list[str]) -> dict[str, Any]:
    own: list[float] = []
    through: list[float] = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        for number in range(1 + ROUNDS):
            direct = [await timed(session, urls["quick"], BATCH) for _ in range(CALLS)]
            # Below the rate that one token has.
            called = [await estimate(session, port, "quick", tokens[each % CALLERS]) for each in range(CALLS)]
            if number:
                own.append(statistics.median(direct))
                through.append(statistics.median(called))
        rates = [await with_many(session, port, tokens) for _ in range(ROUNDS)][1:]
    node, whole, rate = statistics.median(own), statistics.median(through), statistics.median(rates)
    return {
        "p50_milliseconds": {"estimate": milliseconds(whole), "node": milliseconds(node)},
        "p50_added_milliseconds": milliseconds(whole - node),
        "each_round_milliseconds": {
            "estimate": [milliseconds(each) for each in through],
            "node": [milliseconds(each) for each in own],
        },
        "with_a_slow_node": {
            "callers": CALLERS,
            "node_seconds": SLOW_SECONDS,
            "requests_per_second": [round(each) for each in rates],
            "of_what_waiting_allows": round(rate * SLOW_SECONDS / CALLERS, 2),
        },
    }


def milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 2)


async def with_many(session: aiohttp.ClientSession, port: int, tokens: list[str]) -> float:
    """Return the answers in a second, with one caller for each token, each in a loop."""
    end = time.perf_counter() + TURN_SECONDS

    async def caller(token: str) -> int:
        answered = 0
        while time.perf_counter() < end:
            await estimate(session, port, "slow", token)
            answered += 1
        return answered

    started = time.perf_counter()
    answered = await asyncio.gather(*(caller(token) for token in tokens))
    return sum(answered) / (time.perf_counter() - started)


async def estimate(session: aiohttp.ClientSession, port: int, relayer: str, token: str) -> float:
    url = f"http://127.0.0.1:{port}/api/v1/relayers/{relayer}/rpc"
    return await timed(session, url, ESTIMATE, Authorization=f"Bearer {token}")


async def timed(session: aiohttp.ClientSession, url: str, body: Any, **headers: str) -> float:
    started = time.perf_counter()
    headers["Content-Type"] = "application/json"
    async with session.post(url, data=orjson.dumps(body), headers=headers) as response:
        answer = orjson.loads(await response.read())
    if "result" not in answer:
        raise Failed(f"{url} answered {answer}")
    return time.perf_counter() - started


if __name__ == "__main__":
    print(orjson.dumps(measure(), option=orjson.OPT_INDENT_2).decode())
