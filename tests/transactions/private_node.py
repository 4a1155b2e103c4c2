"""A stand-in for a private node, as Flashbots Protect is one. No other node sees what it has until a test includes it.

It keeps a transaction for 25 blocks, takes one at a time, and answers nothing that reads the chain. A no-op cancels
what has its nonce, and is itself never mined.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import rlp

from tests.chain import faults
from tests.chain.faults import Handler, NodeServer
from tests.chain.hardhat import NodeError
from tests.transactions.hardhat import CHAIN_ID, LocalChain, hash_of

KEPT_BLOCKS = 25
DYNAMIC_FEE = 2


@dataclass
class Held:
    raw: bytes
    block: int


class PrivateNode:
    def __init__(self, server: NodeServer, chain: LocalChain) -> None:
        self.server = server
        self.chain = chain
        # All that arrived, in order, and by nonce what it still has.
        self.raw: list[bytes] = []
        self._held: dict[int, Held] = {}

    @property
    def url(self) -> str:
        return self.server.url

    def held(self) -> list[bytes]:
        head = self.chain.head()
        return [each.raw for each in self._held.values() if head - each.block < KEPT_BLOCKS]

    def include(self) -> None:
        """Have the next block include what it has, except what no block can include any more."""
        for raw in self.held():
            with suppress(NodeError):
                self.chain.send_raw(raw)
        self._held.clear()

    def behave(self, handler: Handler, asked: Any) -> None:
        assert not isinstance(asked, list), "a private node takes no batches"
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"]}
        if asked["method"] == "eth_chainId":
            answer["result"] = hex(CHAIN_ID)
        elif asked["method"] == "eth_sendRawTransaction":
            answer["result"] = self._take(bytes.fromhex(asked["params"][0][2:]))
        else:
            answer["error"] = {"code": -32601, "message": "the method does not exist"}
        faults.send(handler, json.dumps(answer).encode())

    def _take(self, raw: bytes) -> str:
        assert raw[0] == DYNAMIC_FEE
        fields = rlp.decode(raw[1:])
        nonce, is_noop = int.from_bytes(fields[1]), not fields[6] and not fields[7]
        self.raw.append(raw)
        self._held.pop(nonce, None)
        if not is_noop:
            self._held[nonce] = Held(raw, self.chain.head())
        return hash_of(raw)


@contextmanager
def private_node(chain: LocalChain) -> Iterator[PrivateNode]:
    with faults.node(lambda handler, asked: node.behave(handler, asked)) as server:
        node = PrivateNode(server, chain)
        yield node
