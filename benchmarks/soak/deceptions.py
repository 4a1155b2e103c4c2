"""Lies of a node that are after money: they fit together over many answers, or are hard to tell from the truth.

    deceiver = Deceiver(node, seed=1)
    node.lie_by_seed(1, [*SEEDED, *DECEPTIONS, HIGH_HEAD])

A `Deceiver` draws a fate for each transaction that arrives at the node, and keeps to it until `node.be_honest()`. It
passes every transaction on.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from chain.transactions import decode
from tests.transactions.lies import failing, per_call, raise_head, raise_tips, returning, transaction_hash
from tests.transactions.lying_node import SEND, Answer, Call, Lie, LyingNode, Request

GWEI = 10**9
WILD_TIP = 900 * GWEI
NOOP_GAS = 21_000


class Fate(StrEnum):
    """What the node says of a transaction, whatever becomes of it."""

    TRUE = "true"
    # No receipt.
    HIDDEN = "hidden receipt"
    # No receipt, and in its block another transaction of the same sender and nonce, without a valid signature, which
    # has a receipt.
    DISOWNED = "foreign entry"
    # A receipt that reports no gas.
    FREE = "zero gas"
    # A no-op that is said to be mined in place of what it should replace, which has no receipt.
    SWAPPED = "false no-op"


@dataclass
class Sent:
    hash: str
    sender: str
    nonce: int
    is_noop: bool
    fate: Fate


class Deceiver:
    def __init__(self, node: LyingNode, seed: int, share: float = 0.4) -> None:
        self.random, self.share = random.Random(seed), share
        self.sent: dict[str, Sent] = {}
        # How often each lie was told.
        self.told: Counter[Fate] = Counter()
        self._lock = threading.Lock()
        node.disguise = self.disguise

    def disguise(self, request: Request, call: Call, answer: Answer) -> Answer:
        method = call["method"]
        if method == SEND:
            self.remember(call)
        elif method == "eth_getTransactionReceipt":
            return self.receipt(request, call, answer)
        elif method == "eth_getTransactionByHash" and self.fate(call["params"][0]) in {Fate.HIDDEN, Fate.DISOWNED}:
            return returning(call, None)
        elif method == "eth_getBlockByNumber" and call["params"][1] and answer.get("result"):
            block = answer["result"]
            return returning(call, block | {"transactions": [self.entry(entry) for entry in block["transactions"]]})
        return answer

    def remember(self, call: Call) -> None:
        """Draw the fate of a transaction when it arrives first."""
        name, transaction = transaction_hash(call), decode(call["params"][0])
        with self._lock:
            if name in self.sent:
                return
            sender = str(transaction.sender).lower()
            is_noop = str(transaction.to).lower() == sender
            fates = [Fate.SWAPPED] if is_noop else [Fate.HIDDEN, Fate.DISOWNED, Fate.FREE]
            fate = self.random.choice(fates) if self.random.random() < self.share else Fate.TRUE
            self.sent[name] = Sent(name, sender, transaction.nonce, is_noop, fate)

    def fate(self, name: str) -> Fate:
        sent = self.sent.get(name.lower())
        return sent.fate if sent else Fate.TRUE

    def receipt(self, request: Request, call: Call, answer: Answer) -> Answer:
        name, found = call["params"][0].lower(), answer.get("result")
        sent = self.sent.get(name)
        if sent is None:
            real = self.sent.get(invented(name))
            found = real and real.fate is Fate.DISOWNED and truth(request, "eth_getTransactionReceipt", real.hash)
            return returning(call, found | {"transactionHash": name}) if found else answer
        if sent.fate is Fate.SWAPPED and not found:
            return self.swapped(request, call, sent)
        if not found or sent.fate in {Fate.TRUE, Fate.SWAPPED}:
            return answer
        self.told[sent.fate] += 1
        return returning(call, found | {"gasUsed": "0x0"} if sent.fate is Fate.FREE else None)

    def swapped(self, request: Request, call: Call, noop: Sent) -> Answer:
        """Answer that a no-op is mined where another transaction with its nonce is."""
        for other in list(self.sent.values()):
            if other is noop or (other.sender, other.nonce) != (noop.sender, noop.nonce):
                continue
            found = truth(request, "eth_getTransactionReceipt", other.hash)
            if found:
                other.fate = Fate.HIDDEN
                self.told[Fate.SWAPPED] += 1
                return returning(
                    call, found | {"transactionHash": noop.hash, "gasUsed": hex(NOOP_GAS), "status": "0x1"}
                )
        return returning(call, None)

    def entry(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Return what the node shows in a block for one transaction."""
        if self.fate(entry["hash"]) is not Fate.DISOWNED:
            return entry
        self.told[Fate.DISOWNED] += 1
        return entry | {"hash": invented(entry["hash"]), "input": "0x", "value": "0x1", "to": "0x" + "ee" * 20}


def invented(name: str) -> str:
    """Return the hash of the transaction that is shown in place of another one, and the other way around."""
    return f"0x{name[2:][::-1]}"


def truth(request: Request, method: str, *params: Any) -> Any:
    """Return what the real node answers."""
    return request.ask({"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}).get("result")


# Lies about single requests.


def change_result(method: str, change: Callable[[Request, Call, Any], Any], name: str) -> Lie:
    """Lie about the results of one method."""

    def tell(request: Request, call: Call) -> Answer:
        answer = request.pass_on(call)
        if call["method"] != method or answer.get("result") is None:
            return answer
        return returning(call, change(request, call, answer["result"]))

    tell.__name__ = name
    return per_call(tell)


def age_balance(blocks: int, *, with_count: bool) -> Lie:
    """Report the balance of some blocks ago, with the count of that block or of the latest one."""
    aged = {"eth_getBalance", "eth_getTransactionCount"} if with_count else {"eth_getBalance"}

    def tell(request: Request, call: Call) -> Answer:
        if call["method"] not in aged or call["params"][1] != "latest":
            return request.pass_on(call)
        head = int(truth(request, "eth_blockNumber"), 16)
        return request.pass_on(call | {"params": [call["params"][0], hex(max(0, head - blocks))]})

    tell.__name__ = "old_balance_and_count" if with_count else "old_balance"
    return per_call(tell)


@per_call
def refuse_sending(request: Request, call: Call) -> Answer:
    """Refuse transactions in unknown words, without passing them on."""
    if call["method"] == SEND:
        return failing(call, -32000, "the frobnicator is out of cheese")
    return request.pass_on(call)


# Apart from the others: who believes it, asks no node for anything else.
HIGH_HEAD = raise_head(1_000_000)
DECEPTIONS: list[Lie] = [
    raise_head(3),
    age_balance(5, with_count=True),
    age_balance(5, with_count=False),
    raise_tips(WILD_TIP),
    change_result("eth_maxPriorityFeePerGas", lambda request, call, found: hex(WILD_TIP), "wild_tip"),
    change_result("eth_gasPrice", lambda request, call, found: hex(WILD_TIP), "wild_price"),
    refuse_sending,
]
