"""A stand-in for a chain node, which answers every call with a fixed value after a wait."""

import asyncio
import sys
from typing import Any

import orjson
from aiohttp import web

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
    return {"jsonrpc": "2.0", "id": call["id"], "result": ANSWERS[call["method"]]}


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
