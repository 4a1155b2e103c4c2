"""A stand-in for a chain node that answers what an estimate asks for, always the same, and tells what it was asked."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from tests.chain import faults
from tests.chain.encoded import HARDHAT_CHAIN
from tests.concurrency import PATIENCE_SECONDS

BLOCKS = 10
DECIMALS = f"0x{keccak(text='decimals()')[:4].hex()}"
LATEST_ROUND = f"0x{keccak(text='latestRoundData()')[:4].hex()}"
# No two nodes have the same URL, also where one gets the port of another: what is kept of one is not of the other.
_numbers = itertools.count(1)


@dataclass
class FeeNode:
    """What the node answers, the methods that it was asked for by HTTP request, and each with its params.

    By default a transfer costs 21000 gas at 1.65 gwei and a tip of 0.11 gwei. With the margin of 20% for the base fee,
    that is a fee of 21000 * 2.09 gwei = 0.00004389 ETH.
    """

    chain_id: int = HARDHAT_CHAIN
    gas: int = 21_000
    # When the head block was made; None is now.
    head_time: int | None = None
    base_fee: int = 1_650_000_000
    tip: int = 110_000_000
    # The answers of all contracts to a call of a function, by its selector.
    contracts: dict[str, str] = field(default_factory=lambda: {DECIMALS: f"0x{6:064x}"})
    # Whole `error` objects, by method.
    errors: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[list[str]] = field(default_factory=list)
    params: list[tuple[str, Any]] = field(default_factory=list)
    # Answers wait while it is not set.
    may_answer: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def answer(self, call: dict[str, Any]) -> dict[str, Any]:
        if call["method"] in self.errors:
            return {"error": self.errors[call["method"]]}
        return {"result": self.result(call["method"], call["params"])}

    def result(self, method: str, params: list[Any]) -> Any:
        if method == "eth_call":
            return self.contracts[params[0]["data"]]
        return {
            "eth_chainId": hex(self.chain_id),
            "eth_estimateGas": hex(self.gas),
            "eth_blockNumber": hex(BLOCKS),
            "eth_getBlockByNumber": {
                "number": hex(BLOCKS),
                "timestamp": hex(int(time.time()) if self.head_time is None else self.head_time),
                "gasUsed": hex(15_000_000),
                "gasLimit": hex(30_000_000),
                "baseFeePerGas": hex(self.base_fee),
            },
            "eth_gasPrice": hex(self.base_fee + self.tip),
            "eth_feeHistory": {
                "oldestBlock": "0x1",
                "baseFeePerGas": [hex(self.base_fee)] * (BLOCKS + 1),
                # Half full: the 40th percentile of the tips is the one to offer.
                "gasUsedRatio": [0.5] * BLOCKS,
                "reward": [[hex(self.tip + step) for step in range(-1, 6)]] * BLOCKS,
            },
        }[method]

    def count(self, method: str) -> int:
        return sum(methods.count(method) for methods in self.asked)

    def set_feed(self, price: int, updated_at: int, decimals: int = 18) -> None:
        """Let every feed give this price of a token in the native coin."""
        answer = encode(["uint80", "int256", "uint256", "uint256", "uint80"], [1, price, updated_at, updated_at, 1])
        self.contracts |= {LATEST_ROUND: f"0x{answer.hex()}", DECIMALS: f"0x{decimals:064x}"}


@contextmanager
def serve(node: FeeNode) -> Iterator[FeeNode]:
    def behave(handler: faults.Handler, asked: Any) -> None:
        calls = asked if isinstance(asked, list) else [asked]
        node.asked.append([call["method"] for call in calls])
        node.params += [(call["method"], call["params"]) for call in calls]
        node.may_answer.wait(PATIENCE_SECONDS)
        faults.each(node.answer)(handler, asked)

    node.may_answer.set()
    with faults.node(behave) as server:
        node.url = f"http://127.0.0.1:{server.server_port}/v1/s3cret-{next(_numbers)}"
        try:
            yield node
        finally:
            node.may_answer.set()
