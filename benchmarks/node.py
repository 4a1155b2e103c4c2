"""A stand-in for a chain node, which answers every call with a fixed value after a wait."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import orjson
from aiohttp import web

from tests.processes import stop
from tests.servers import PROJECT, free_port, wait_for_port

CHAIN_ID = 31337
GWEI = 10**9
ANSWERS: dict[str, Any] = {
    "eth_chainId": hex(CHAIN_ID),
    "eth_blockNumber": "0x1312d00",
    "eth_getTransactionCount": "0x7",
    "eth_getBalance": hex(10**18),
    "eth_estimateGas": hex(52_000),
    "eth_gasPrice": hex(2 * GWEI),
    "eth_feeHistory": {
        "oldestBlock": "0x1312cf7",
        "baseFeePerGas": [hex(GWEI)] * 11,
        "gasUsedRatio": [0.6] * 10,
        "reward": [[hex(GWEI)] * 7] * 10,
    },
}
# The price of a token in the native coin, with eighteen decimals.
PRICE = 10**18 // 3000
SELECTORS = {"latestRoundData()": "0xfeaf968c", "decimals()": "0x313ce567"}


@contextmanager
def nodes(*milliseconds: int, program: str = "benchmarks.node") -> Iterator[dict[int, str]]:
    """Run a node for each wait; yield their URLs."""
    ports = {wait: free_port() for wait in milliseconds}
    with ExitStack() as stack:
        for wait, port in ports.items():
            command = [sys.executable, "-m", program, str(port), str(wait / 1000)]
            stack.callback(stop, subprocess.Popen(command, cwd=PROJECT))
        for port in ports.values():
            wait_for_port(port)
        yield {wait: f"http://127.0.0.1:{port}/" for wait, port in ports.items()}


def main(port: int, wait_seconds: float) -> None:
    async def take(request: web.Request) -> web.Response:
        calls = orjson.loads(await request.read())
        await asyncio.sleep(wait_seconds)
        return web.Response(
            body=orjson.dumps([answer(call) for call in calls] if isinstance(calls, list) else answer(calls))
        )

    application = web.Application()
    application.add_routes([web.post("/", take)])
    web.run_app(application, host="127.0.0.1", port=port, print=None, access_log=None, shutdown_timeout=0.1)


def answer(call: dict[str, Any]) -> dict[str, Any]:
    method = call["method"]
    if method == "eth_call":
        result: Any = contract(call["params"][0]["data"])
    else:
        result = head() if method == "eth_getBlockByNumber" else ANSWERS[method]
    return {"jsonrpc": "2.0", "id": call["id"], "result": result}


def head() -> dict[str, str]:
    """Return a block of the current second."""
    sizes = {"gasUsed": hex(18_000_000), "gasLimit": hex(30_000_000), "baseFeePerGas": hex(GWEI)}
    return {"number": "0x1312d00", "timestamp": hex(int(time.time())), **sizes}


def contract(data: str) -> str:
    """Answer as any Chainlink feed."""
    if data == SELECTORS["decimals()"]:
        return f"0x{18:064x}"
    now = int(time.time())
    return "0x" + "".join(f"{word:064x}" for word in (1, PRICE, now, now, 1))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
