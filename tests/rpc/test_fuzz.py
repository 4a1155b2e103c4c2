"""Texts that are transactions, or nearly, or not at all: each returns a result or an error, and none crashes."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chain.nodes import failover
from chain.nodes.attempts import Call
from relayers.models import Relayer
from rpc import dispatch
from tests.amounts import amount
from tests.chain.encoded import FIELDS, encode, items_of, nested_lists, number, signed, text, unsigned
from tests.chain.hardhat import with_blobs
from tests.relayers.factories import ADDRESS

# Before a node is asked, the connection to the database is given back, even if nothing was asked of it.
pytestmark = [pytest.mark.django_db, pytest.mark.one_engine]

INPUTS = amount(1_000, 3_000)
SEED = 20_261_115
CHAINS = {"hardhat": 31337, "optimism": 10, "arbitrum-one": 42161}
INTERNAL_ERROR = -32603
INVALID_PARAMS = -32602
# Of what is a transaction, but none that a block would take: too little gas for instance.
NOT_INCLUDED = -32003
ODD_DIGITS = ["\u0661", "\uff11", "\u00b2", " ", "\n", "\t", "_", "x", "g", "\0", "+", "-", "\u200b", "\U0001f511"]
ANSWERS: dict[str, Any] = {
    "eth_estimateGas": "0x5208",
    "eth_blobBaseFee": "0x1",
    "eth_blockNumber": "0x1",
    "eth_feeHistory": {"baseFeePerGas": ["0x7", "0x7"], "gasUsedRatio": [0.5], "reward": [["0x1"] * 7]},
    # Enough words for whatever a contract is asked for.
    "eth_call": "0x" + f"{1:064x}" * 3,
}


@pytest.fixture(autouse=True)
def stand_in_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for the nodes, the one thing here that is not real: what is tried is all that comes before them."""

    def call(
        relayer_nodes: Any, calls: list[Call], chain_id: int | None, check: failover.Check | None = None
    ) -> list[Any]:
        head = {"number": "0x1", "timestamp": hex(int(time.time())), "gasUsed": "0x1", "gasLimit": "0x2"}
        answers = [head if each.method == "eth_getBlockByNumber" else ANSWERS[each.method] for each in calls]
        if check:
            check(answers)
        return answers

    monkeypatch.setattr(failover, "call", call)


def valid(chain_id: int) -> list[bytes]:
    """Return transactions of every type, signed and not, as seeds to grow the others from."""
    seeds = [make(kind, chainId=chain_id) for kind in FIELDS for make in (signed, unsigned)]
    creation = signed(2, chainId=chain_id, to="", data="0x6000", gas=100_000)
    return [*seeds, creation, encode(0, items_of(signed(0))[:6])]


class Fuzzer:
    """Make texts from a seed: bytes of no meaning, transactions with something changed, and what is hardly text."""

    def __init__(self, seed: int, chain_id: int) -> None:
        self.random = random.Random(seed)
        self.valid = valid(chain_id)

    def __iter__(self) -> Iterator[str]:
        ways = [self.noise, self.flipped, self.cut, self.reshaped, self.replaced]
        while True:
            way = self.random.choice([*ways, None])
            yield text(way()) if way else self.odd_text()

    def one(self) -> bytes:
        return self.random.choice(self.valid)

    def noise(self) -> bytes:
        start = self.random.choice([b"", b"\x01", b"\x02", b"\x03", b"\x04", b"\xf8", b"\xb9", b"\x02\xff"])
        return start + self.random.randbytes(self.random.randint(0, 200))

    def flipped(self) -> bytes:
        changed = bytearray(self.one())
        for _ in range(self.random.randint(1, 3)):
            changed[self.random.randrange(len(changed))] = self.random.randrange(256)
        return bytes(changed)

    def cut(self) -> bytes:
        """Join the beginning of a transaction and the end of one."""
        first, second = self.one(), self.one()
        return first[: self.random.randint(0, len(first))] + second[self.random.randint(0, len(second)) :]

    def value(self, depth: int = 0) -> Any:
        """Make any value of RLP, of any shape."""
        if depth < 5 and self.random.random() < 0.3:
            return [self.value(depth + 1) for _ in range(self.random.randint(0, 6))]
        whole = self.random.choice([0, 1, 27, 31337, 2**64 - 1, 2**64, 2**256 - 1, 2**256])
        sized = self.random.randbytes(self.random.choice([0, 1, 19, 20, 21, 31, 32, 33]))
        return self.random.choice([number(whole), sized, b"\0" + sized])

    def reshaped(self) -> bytes:
        fields = [self.value() for _ in range(self.random.choice([*FIELDS.values(), 9, 11, 12, 13, 14, 1, 0]))]
        return encode(self.random.randrange(6), fields)

    def replaced(self) -> bytes:
        """Put something else into a field, or into a list of it."""
        encoded = self.one()
        items = items_of(encoded)
        inner: Any = items
        while True:
            position = self.random.randrange(len(inner))
            if not (isinstance(inner[position], list) and inner[position] and self.random.random() < 0.7):
                break
            inner = inner[position]
        inner[position] = self.value()
        kind = encoded[0] if encoded[0] < 0xC0 else 0
        return encode(kind, [items, [], [], []] if kind == 3 and self.random.random() < 0.3 else items)

    def odd_text(self) -> str:
        digits, odd = text(self.one()), self.random.choice(ODD_DIGITS)
        position = self.random.randint(2, len(digits))
        return self.random.choice(
            [digits[:position] + odd + digits[position + 1 :], digits[: position - 1], digits.upper(), f"0x{digits}"]
        )


def answers(network: str, inputs: Iterator[str] | list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    relayer = Relayer(pk=1, identifier="relayer-1", network=network, address=ADDRESS)
    for sent in inputs:
        params = {"fee_token": "ETH", "network": network, "transaction": sent}
        yield sent, dispatch.answer(relayer, "feeEstimate", params)


def test_thousands_of_inputs_return_a_result_or_a_documented_error() -> None:
    outcomes: Counter[Any] = Counter()
    crashes = []
    share = INPUTS // len(CHAINS) + 1
    for more, (network, chain_id) in enumerate(CHAINS.items()):
        assert any("result" in answer for _, answer in answers(network, [text(seed) for seed in valid(chain_id)]))
        fuzzer = iter(Fuzzer(SEED + more, chain_id))
        for sent, answer in answers(network, [next(fuzzer) for _ in range(share)]):
            outcome = answer["error"]["code"] if "error" in answer else "result"
            outcomes[outcome] += 1
            if outcome == INTERNAL_ERROR:
                crashes.append(sent)
    assert crashes == []
    assert sum(outcomes.values()) >= INPUTS
    assert set(outcomes) == {INVALID_PARAMS, NOT_INCLUDED, "result"}
    # Enough of both, so that all of the decoder is tried.
    assert min(outcomes[INVALID_PARAMS], outcomes["result"]) > INPUTS // 20


def list_of(encoded: bytes) -> bytes:
    """Put what is encoded already into a long list."""
    return b"\xfa" + len(encoded).to_bytes(3) + encoded


HUGE: dict[str, Callable[[], str]] = {
    "a mebibyte of data": lambda: text(unsigned(2, data="0x" + "fe" * 500_000)),
    "a mebibyte of blobs": lambda: text(with_blobs(signed(3))),
    "a mebibyte of empty fields": lambda: text(list_of(b"\x80" * 500_000)),
    "a hundred thousand nested lists of type 3": lambda: text(b"\x03" + nested_lists(100_000)),
    "a number of a mebibyte": lambda: text(encode(2, [b"\x01" * 500_000, *items_of(unsigned(2))[1:]])),
}


@pytest.mark.parametrize("name", HUGE)
def test_what_is_huge_or_deep_is_answered_too(name: str) -> None:
    ((_, answer),) = answers("hardhat", [HUGE[name]()])
    if name in {"a mebibyte of data", "a mebibyte of blobs"}:
        assert answer["result"]["method"] == "feeEstimate"
    else:
        assert answer["error"]["code"] == INVALID_PARAMS
