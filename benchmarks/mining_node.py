"""A stand-in for a chain node that accepts signed transactions and mines a block every second.

It executes nothing: a transaction with the next nonce of its sender succeeds, one with a later nonce waits. Accounts
have endless funds. It counts the requests, and keeps when each transaction arrived.
"""

import asyncio
import os
import sys
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import coincurve
import orjson
import rlp
from aiohttp import web
from eth_utils.crypto import keccak

from benchmarks.node import ANSWERS, GWEI

BLOCK_SECONDS = 1.0
# Blocks that are there at the start, so that one is final.
FIRST_BLOCK = 100
GAS_USED = 21_000
# Of an EIP-1559 and of a legacy transaction, unsigned: the number of fields.
DYNAMIC_FEE_FIELDS, LEGACY_FIELDS = 9, 6
MAX_BODY_BYTES = 64_000_000

Params = list[Any]


@dataclass(frozen=True)
class Sent:
    hash: str
    sender: str
    nonce: int


@dataclass
class Account:
    waiting: dict[int, Sent] = field(default_factory=dict)
    # After which blocks the count changed, and to what.
    blocks: list[int] = field(default_factory=lambda: [0])
    counts: list[int] = field(default_factory=lambda: [0])

    def count_at(self, block: int) -> int:
        return self.counts[bisect_right(self.blocks, block) - 1]

    @property
    def pending_count(self) -> int:
        nonce = self.counts[-1]
        while nonce in self.waiting:
            nonce += 1
        return nonce


class Refused(Exception):
    """Why a transaction is not accepted, in the words of geth."""


class Chain:
    def __init__(self) -> None:
        self.head = FIRST_BLOCK
        self.times = {self.head: int(time.time())}
        self.accounts: defaultdict[str, Account] = defaultdict(Account)
        self.arrived: dict[str, float] = {}
        # By hash, the block and the sender of what is mined.
        self.mined: dict[str, tuple[int, str]] = {}
        self.requests: Counter[str] = Counter()
        self.methods: dict[str, Callable[[Params], Any]] = {
            "eth_blockNumber": lambda params: hex(self.head),
            "eth_getBlockByNumber": self.block,
            "eth_getTransactionCount": self.count,
            "eth_getTransactionReceipt": self.receipt,
            "eth_getTransactionByHash": self.receipt,
            "eth_sendRawTransaction": self.send,
            "eth_feeHistory": self.fee_history,
        }

    def mine(self) -> None:
        self.head += 1
        self.times[self.head] = int(time.time())
        for address, account in self.accounts.items():
            nonce = account.counts[-1]
            while (sent := account.waiting.pop(nonce, None)) is not None:
                self.mined[sent.hash] = self.head, address
                nonce += 1
            if nonce != account.counts[-1]:
                account.blocks.append(self.head)
                account.counts.append(nonce)

    def answer(self, call: dict[str, Any]) -> dict[str, Any]:
        method, params = call["method"], call.get("params", [])
        self.requests[method] += 1
        reply = {"jsonrpc": "2.0", "id": call["id"]}
        try:
            result = self.methods[method](params) if method in self.methods else ANSWERS[method]
        except Refused as reason:
            return reply | {"error": {"code": -32000, "message": str(reason)}}
        except KeyError:
            return reply | {"error": {"code": -32601, "message": f"the method {method} does not exist"}}
        return reply | {"result": result}

    def number(self, tag: str) -> int:
        return self.head if tag in {"latest", "pending", "safe", "finalized"} else int(tag, 16)

    def block(self, params: Params) -> dict[str, Any] | None:
        number = self.number(params[0])
        if number > self.head:
            return None
        timestamp = self.times.get(number, self.times[FIRST_BLOCK] - FIRST_BLOCK + number)
        sizes = {"gasUsed": hex(18_000_000), "gasLimit": hex(30_000_000), "baseFeePerGas": hex(GWEI)}
        links = {"hash": block_hash(number), "parentHash": block_hash(number - 1)}
        return {"number": hex(number), "timestamp": hex(timestamp), "transactions": [], **links, **sizes}

    def count(self, params: Params) -> str:
        account = self.accounts.get(params[0].lower())
        if account is None:
            return "0x0"
        return hex(account.pending_count if params[1] == "pending" else account.count_at(self.number(params[1])))

    def receipt(self, params: Params) -> dict[str, Any] | None:
        if (found := self.mined.get(params[0])) is None:
            return None
        number, sender = found
        return {
            "transactionHash": params[0],
            "from": sender,
            "blockNumber": hex(number),
            "blockHash": block_hash(number),
            "status": "0x1",
            "gasUsed": hex(GAS_USED),
            "effectiveGasPrice": hex(2 * GWEI),
            "contractAddress": None,
        }

    def send(self, params: Params) -> str:
        sent = decode(bytes.fromhex(params[0][2:]))
        account = self.accounts[sent.sender]
        if sent.hash in self.mined or account.waiting.get(sent.nonce) == sent:
            raise Refused("already known")
        if sent.nonce < account.counts[-1]:
            raise Refused(f"nonce too low: next nonce {account.counts[-1]}, tx nonce {sent.nonce}")
        self.arrived.setdefault(sent.hash, time.time())
        account.waiting[sent.nonce] = sent
        return sent.hash

    def fee_history(self, params: Params) -> dict[str, Any]:
        blocks, percentiles = int(str(params[0]), 0), len(params[2])
        return {
            "oldestBlock": hex(self.head - blocks + 1),
            "baseFeePerGas": [hex(GWEI)] * (blocks + 1),
            "gasUsedRatio": [0.6] * blocks,
            "reward": [[hex(GWEI)] * percentiles] * blocks,
        }


def block_hash(number: int) -> str:
    return f"0x{number:064x}"


def decode(raw: bytes) -> Sent:
    """Read nonce and sender of a signed transaction."""
    if raw[0] == 2:
        fields = rlp.decode(raw[1:])
        unsigned = raw[:1] + rlp.encode(fields[:DYNAMIC_FEE_FIELDS])
        nonce, parity = fields[1], int.from_bytes(fields[DYNAMIC_FEE_FIELDS])
    else:
        fields = rlp.decode(raw)
        v = int.from_bytes(fields[LEGACY_FIELDS])
        chain_id = (v - 35) // 2
        unsigned = rlp.encode([*fields[:LEGACY_FIELDS], chain_id.to_bytes(4).lstrip(b"\0"), b"", b""])
        nonce, parity = fields[0], (v - 35) % 2
    signature = b"".join(part.rjust(32, b"\0") for part in fields[-2:]) + bytes([parity])
    key = coincurve.PublicKey.from_signature_and_message(signature, keccak(unsigned), hasher=None)
    address = keccak(key.format(compressed=False)[1:])[-20:]
    return Sent("0x" + keccak(raw).hex(), "0x" + address.hex(), int.from_bytes(nonce))


def main(port: int, wait_seconds: float) -> None:
    chain = Chain()

    async def take(request: web.Request) -> web.Response:
        calls = orjson.loads(await request.read())
        await asyncio.sleep(wait_seconds)
        chain.requests["batches"] += 1
        answers = [chain.answer(call) for call in calls] if isinstance(calls, list) else chain.answer(calls)
        return web.Response(body=orjson.dumps(answers))

    async def figures(request: web.Request) -> web.Response:
        """Return the requests by method, and when each transaction arrived, by hash; start over with both."""
        found = {"pid": os.getpid(), "requests": dict(chain.requests), "arrived": dict(chain.arrived)}
        chain.requests.clear()
        chain.arrived.clear()
        return web.Response(body=orjson.dumps(found))

    async def mining(application: web.Application) -> Any:
        async def run() -> None:
            while True:
                await asyncio.sleep(BLOCK_SECONDS - time.time() % BLOCK_SECONDS)
                chain.mine()

        task = asyncio.create_task(run())
        yield
        task.cancel()

    application = web.Application(client_max_size=MAX_BODY_BYTES)
    application.add_routes([web.post("/", take), web.get("/figures", figures)])
    application.cleanup_ctx.append(mining)
    web.run_app(application, host="127.0.0.1", port=port, print=None, access_log=None, shutdown_timeout=0.1)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
