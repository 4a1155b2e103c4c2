"""A chain in memory behind a real HTTP node: blocks with transactions of one account, and state that it has pruned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from chain.networks import Network
from tests.chain import faults
from tests.chain.entries import entry
from tests.relayers.factories import KEY
from tests.transactions.hardhat import RECEIVER, hash_of, signed
from transactions.settlement.reading import NodeReader

__all__ = ["RECEIVER", "FakeChain", "raw", "serve"]


@cache
def raw(nonce: int) -> bytes:
    """Return the transaction that uses a nonce, signed by the account."""
    return signed(KEY, nonce, value=nonce + 100, gas=21_000, gasPrice=10**9)


@dataclass
class FakeChain:
    """The account uses nonce N in the block `used[N]`."""

    head: int
    used: list[int]
    # Counts at blocks further below the head are pruned.
    state_blocks: int = 10**9
    asked: list[str] = field(default_factory=list)
    # Blocks that were read with their transactions, and whether it leaves these out.
    scanned: list[int] = field(default_factory=list)
    is_hiding: bool = False
    # What is different in the entries of its transactions.
    changes: dict[str, Any] = field(default_factory=dict)

    def answer(self, call: dict[str, Any]) -> dict[str, Any]:
        method, params = call["method"], call["params"]
        self.asked.append(method)
        if method == "eth_chainId":
            return {"result": hex(31337)}
        if method == "eth_getBlockByNumber":
            if params[1]:
                self.scanned.append(self.number(params[0]))
            return {"result": self.block(self.number(params[0]), full=params[1])}
        if method == "eth_getTransactionReceipt":
            return {"result": self.receipt(params[0])}
        if method == "eth_getTransactionByHash":
            (nonce,) = [nonce for nonce in range(len(self.used)) if hash_of(raw(nonce)) == params[0]]
            return {"result": self.transaction(nonce) | {"blockHash": f"0x{self.used[nonce]:064x}"}}
        if method == "eth_getTransactionCount":
            number = self.number(params[1])
            if not self.head - self.state_blocks <= number <= self.head:
                return {"error": {"code": -32000, "message": "missing trie node 00 (path )"}}
            return {"result": hex(self.count(number))}
        return {"result": None}

    def number(self, tag: str) -> int:
        return self.head if tag in {"latest", "pending"} else int(tag, 16)

    def count(self, number: int) -> int:
        return sum(block <= number for block in self.used)

    def block(self, number: int, *, full: bool) -> dict[str, Any] | None:
        if number > self.head:
            return None
        found = [self.transaction(nonce) for nonce, block in enumerate(self.used) if block == number]
        values = {"number": number, "timestamp": 1_700_000_000, "gasUsed": 0, "gasLimit": 30_000_000}
        return {
            **{name: hex(value) for name, value in values.items()},
            "hash": f"0x{number:064x}",
            "transactions": [] if self.is_hiding else found if full else [one["hash"] for one in found],
        }

    def receipt(self, transaction_hash: str) -> dict[str, Any]:
        block = next(block for nonce, block in enumerate(self.used) if hash_of(raw(nonce)) == transaction_hash)
        return {
            "transactionHash": transaction_hash,
            "blockNumber": hex(block),
            "blockHash": f"0x{block:064x}",
            "status": "0x1",
            "gasUsed": hex(21_000),
        }

    def transaction(self, nonce: int) -> dict[str, Any]:
        return entry(raw(nonce)) | self.changes


@contextmanager
def serve(chain: FakeChain, network: Network) -> Iterator[NodeReader]:
    """Yield a reader of a node with this chain."""
    with faults.node(faults.each(chain.answer)) as server:
        yield NodeReader(server.url, network)
