"""A stand-in for a chain node: a few methods of JSON-RPC with fixed answers, single and in batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.chain import faults

HARDHAT_CHAIN = 31337


@dataclass
class StandInNode:
    """The responses of the node, and the calls that it got."""

    chain_id: int = HARDHAT_CHAIN
    head_block: int = 20_000_123
    nonce: int = 7
    balance: int = 1_500_000_000_000_000_001
    url: str = ""
    asked: list[str] = field(default_factory=list)
    traceparents: list[str | None] = field(default_factory=list)

    def answer(self, call: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(call["method"])
        results = {
            "eth_chainId": self.chain_id,
            "eth_blockNumber": self.head_block,
            "eth_getTransactionCount": self.nonce,
            "eth_getBalance": self.balance,
        }
        return {"result": hex(results[call["method"]])}


@contextmanager
def serve(node: StandInNode) -> Iterator[StandInNode]:
    with faults.node(faults.each(node.answer)) as server:
        node.traceparents = server.traceparents
        node.url = f"http://127.0.0.1:{server.server_port}/v1/s3cret"
        yield node
