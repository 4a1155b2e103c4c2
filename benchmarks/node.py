"""A stand-in for chain nodes: every call at `/50` is answered with a fixed value after 50 milliseconds."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
        "reward": [[hex(GWEI)] * 4] * 10,
    },
}


@contextmanager
def nodes() -> Iterator[str]:
    """Run the nodes, and yield the URL that a number of milliseconds is added to."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.node", str(port)], cwd=PROJECT)
    try:
        wait_for_port(port, process=process)
        yield f"http://127.0.0.1:{port}/"
    finally:
        stop(process)


def main(port: int) -> None:
    async def take(request: web.Request) -> web.Response:
        calls = orjson.loads(await request.read())
        await asyncio.sleep(int(request.match_info["milliseconds"]) / 1000)
        return web.Response(
            body=orjson.dumps([answer(call) for call in calls] if isinstance(calls, list) else answer(calls))
        )

    application = web.Application()
    application.add_routes([web.post("/{milliseconds}", take)])
    web.run_app(application, host="127.0.0.1", port=port, print=None, access_log=None, shutdown_timeout=0.1)


def answer(call: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": call["id"], "result": ANSWERS[call["method"]]}


if __name__ == "__main__":
    main(int(sys.argv[1]))
