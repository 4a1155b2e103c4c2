"""A chain in memory and its node, without sockets: thousands of turns and looks in a minute.

A payload succeeds unless its value is a multiple of `REVERTING`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from eth_utils.crypto import keccak

from relayer_service.net.node_http import CannotConnect
from relayer_service.net.outgoing import Answer
from tests.chain.entries import entry

URL = "http://127.0.0.1:9/memory"
CHAIN_ID, GWEI, GAS = 31337, 10**9, 21_000
BASE_FEE, TIP = GWEI, GWEI
# Of a payload that is executed and reverts.
REVERTING = 5
# A node replaces a transaction by one that pays a tenth more.
BUMP = (11, 10)
PRICES = ("gasPrice", "maxFeePerGas", "maxPriorityFeePerGas")


@dataclass(frozen=True)
class Signed:
    """A signed transaction, as the node reads it."""

    raw: bytes = field(repr=False)
    # As a block has it.
    entry: dict[str, Any] = field(repr=False, compare=False)
    hash: str
    sender: str
    nonce: int
    to: str
    value: int
    data: bytes

    @property
    def price(self) -> int:
        return min(int(self.entry[name], 16) for name in PRICES if name in self.entry)

    @property
    def succeeds(self) -> bool:
        return not self.value or self.value % REVERTING != 0

    @classmethod
    def read(cls, raw: bytes) -> Signed:
        found = entry(raw) | {"chainId": hex(CHAIN_ID)}
        nonce, value, data = int(found["nonce"], 16), int(found["value"], 16), bytes.fromhex(found["input"][2:])
        return cls(raw, found, found["hash"], found["from"], nonce, found["to"], value, data)


@dataclass
class Block:
    number: int
    hash: str
    transactions: list[Signed]


class MemoryChain:
    def __init__(self) -> None:
        self.blocks = [Block(0, f"0x{0:064x}", [])]
        # By account and nonce.
        self.mempool: dict[tuple[str, int], Signed] = {}
        # Of accounts that do not have enough for everything.
        self.balances: dict[str, int] = {}
        self.is_down = False
        # It takes transactions, but its answers are lost.
        self.loses_answers = False
        self.hides_receipts = False
        # For good, but not a no-op.
        self.refuses_payloads = False
        # Called with each transaction that arrives, whatever becomes of it.
        self.on_arrival: Callable[[Signed], None] = lambda signed: None
        self._made = 0

    @property
    def head(self) -> int:
        return self.blocks[-1].number

    @property
    def mined(self) -> list[Signed]:
        return [each for block in self.blocks for each in block.transactions]

    def count(self, address: str, number: int | None = None) -> int:
        """Return how many nonces of an account were used up to a block, the last one if it is not given."""
        blocks = self.blocks if number is None else self.blocks[: number + 1]
        return sum(each.sender == address.lower() for block in blocks for each in block.transactions)

    def mine(self, *, is_empty: bool = False) -> None:
        """Mine a block with everything that can be executed."""
        self._made += 1
        chosen = []
        for sender in () if is_empty else sorted({sender for sender, _ in self.mempool}):
            used = range(self.count(sender), self._pending(sender))
            chosen += [self.mempool.pop((sender, nonce)) for nonce in used]
        self.blocks.append(Block(self.head + 1, f"0x{keccak(text=f'{self._made}').hex()}", chosen))

    def reorg(self, depth: int, *, keeps: bool) -> None:
        """Replace the last blocks by as many empty ones and one more; the mempool has what they contained, or not."""
        removed = [self.blocks.pop() for _ in range(min(depth, self.head))]
        for each in [each for block in removed for each in block.transactions] if keeps else []:
            self.mempool.setdefault((each.sender, each.nonce), each)
        for _ in range(len(removed) + 1):
            self.mine(is_empty=True)

    def receive(self, raw: bytes) -> dict[str, Any]:
        signed = Signed.read(raw)
        self.on_arrival(signed)
        if signed.nonce < self.count(signed.sender):
            return _error("nonce too low")
        if self.refuses_payloads and signed.value:
            return _error("oversized data")
        known = self.mempool.get((signed.sender, signed.nonce))
        if known is not None and known.hash == signed.hash:
            return _error("already known")
        if known is not None and signed.price * BUMP[1] < known.price * BUMP[0]:
            return _error("replacement transaction underpriced")
        self.mempool[signed.sender, signed.nonce] = signed
        return {"result": signed.hash}

    def post(self, url: str, body: bytes, **options: Any) -> Answer:
        """Answer an HTTP request, in place of `node_http.post`."""
        if self.is_down:
            raise CannotConnect
        calls = json.loads(body)
        found = [
            {"jsonrpc": "2.0", "id": call["id"], **self.answer(call["method"], call["params"])}
            for call in (calls if isinstance(calls, list) else [calls])
        ]
        if self.loses_answers:
            raise TimeoutError
        return Answer(200, {}, json.dumps(found if isinstance(calls, list) else found[0]).encode())

    def answer(self, method: str, params: list[Any]) -> dict[str, Any]:
        match method:
            case "eth_sendRawTransaction":
                return self.receive(bytes.fromhex(params[0][2:]))
            case "eth_getBlockByNumber":
                return {"result": self._block(params[0], full=params[1])}
            case "eth_getTransactionCount":
                address, tag = params
                count = self._pending(address) if tag == "pending" else self.count(address, self._at(tag))
                return {"result": hex(count)}
            case "eth_getBalance":
                return {"result": hex(self.balances.get(params[0].lower(), 10**24))}
            case "eth_getTransactionReceipt":
                return {"result": self._receipt(params[0])}
            case "eth_getTransactionByHash":
                return {"result": self._find(params[0])}
        fixed = {
            "eth_chainId": hex(CHAIN_ID),
            "eth_blockNumber": hex(self.head),
            "eth_estimateGas": hex(GAS),
            "eth_gasPrice": hex(BASE_FEE + TIP),
            "eth_getCode": "0x",
            "eth_feeHistory": {
                "oldestBlock": hex(self.head),
                "baseFeePerGas": [hex(BASE_FEE)] * 2,
                "gasUsedRatio": [0.5],
                "reward": [[hex(TIP)] * len(params[2])] if len(params) > 2 else [],
            },
        }
        return {"result": fixed.get(method)}

    def _at(self, tag: str) -> int:
        return self.head if tag == "latest" else int(tag, 16)

    def _pending(self, address: str) -> int:
        nonce = self.count(address)
        while (address.lower(), nonce) in self.mempool:
            nonce += 1
        return nonce

    def _block(self, tag: str, *, full: bool) -> dict[str, Any] | None:
        if (number := self._at(tag)) > self.head:
            return None
        block = self.blocks[number]
        values = {"number": number, "timestamp": 1_700_000_000 + number, "gasUsed": 10**6, "gasLimit": 3 * 10**7}
        return {
            **{name: hex(value) for name, value in (values | {"baseFeePerGas": BASE_FEE}).items()},
            "hash": block.hash,
            "transactions": [self._entry(each, block) if full else each.hash for each in block.transactions],
        }

    def _entry(self, signed: Signed, block: Block) -> dict[str, Any]:
        paid = {} if signed.entry["type"] == "0x0" else {"gasPrice": hex(BASE_FEE + TIP)}
        return {**signed.entry, **paid, "blockHash": block.hash, "blockNumber": hex(block.number)}

    def _find(self, found: str) -> dict[str, Any] | None:
        for block in self.blocks:
            for each in block.transactions:
                if each.hash == found:
                    return self._entry(each, block)
        return None

    def _receipt(self, found: str) -> dict[str, Any] | None:
        mined = None if self.hides_receipts else self._find(found)
        if mined is None:
            return None
        return {
            "transactionHash": found,
            "status": hex(next(each for each in self.mined if each.hash == found).succeeds),
            "gasUsed": hex(GAS),
            "effectiveGasPrice": hex(BASE_FEE + TIP),
            "blockNumber": mined["blockNumber"],
            "blockHash": mined["blockHash"],
        }


def _error(message: str) -> dict[str, Any]:
    return {"error": {"code": -32000, "message": message}}
