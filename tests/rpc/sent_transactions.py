"""Random transactions that are quoted, then really sent, with what was paid for each; base fees rise and fall."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from eth_abi.abi import encode

from relayer_service.database import ttl_cache
from relayers.models import Relayer
from rpc.dispatch import answer
from tests.chain.fixtures import Deployed
from tests.chain.hardhat import EMPTY_BLOB_HASH, Chain, contracts, encode_call, with_blobs
from tests.chain.independent import BLOB_GAS, Transaction, address_of, authorization, quantity
from tests.relayers import factories as relayers
from tests.rpc.factories import KEYS

# How many there are of each kind in a run: 200, and some with blobs where there is time for them.
COUNTS = {
    "transfer": 40,
    "token transfer": 40,
    "write": 35,
    "clear": 25,
    "creation": 20,
    "access list": 25,
    "delegation": 15,
}
BLOBS = {"blob": 6}

# A full block has data of others, which costs gas (by EIP-7623, 40 for a byte) and hardly any time.
BLOCK_GAS = 3_000_000
BYTE_GAS, TRANSFER_GAS = 40, 21_000
GAS_LIMIT = 500_000
# Where the base fee turns.
LOWEST_BASE_FEE, HIGHEST_BASE_FEE = 2 * 10**9, 100 * 10**9
# Slots that are written before the run: those that are cleared, and those that are written again.
CLEARED, REWRITTEN = 10**6, 2 * 10**6
SLOTS_OF_A_CLEAR = 3
OTHER_KEY = KEYS[2]


@dataclass(frozen=True)
class Outcome:
    """What was quoted for a transaction, in wei, and what was paid."""

    kind: str
    expected: int
    maximum: int
    paid: int
    # Of the block that the quote rests on, and of the one that has the transaction.
    base_fees: tuple[int, int]
    # The part of it that a rollup charges for data: expected, the maximum, and what is charged for the signed bytes.
    data_fees: tuple[int, int, int]

    @property
    def error(self) -> Fraction:
        return Fraction(self.expected - self.paid, self.paid)


@dataclass
class Run:
    """A chain whose blocks are mined by hand, with a relayer; the same transactions in each run."""

    chain: Chain
    deployed: Deployed
    relayer: Relayer
    chance: random.Random
    # What a rollup takes beside gas: for the bytes of a signed transaction, and for the gas that it has used.
    data_charge: Callable[[bytes], int] = lambda signed: 0
    operator_charge: Callable[[int], int] = lambda gas: 0
    rises: bool = True
    made: int = 0

    def send_all(self, counts: dict[str, int], blocks_between: int = 0) -> list[Outcome]:
        kinds = [kind for kind, count in counts.items() for _ in range(count)]
        self.chance.shuffle(kinds)
        return [self.send(kind, blocks_between) for kind in kinds]

    def send(self, kind: str, blocks_between: int) -> Outcome:
        """Quote a transaction: the relayer's own, which it signs as quoted, or one that another account has signed."""
        self.made += 1
        self.turn()
        if kind in BLOBS:
            # Which are alone in their block.
            self.mine(BLOCK_GAS)
        before = self.base_fee("latest")
        transaction = self.work(kind)
        is_signed = self.chance.random() < 0.5
        if is_signed:
            transaction = self.priced(transaction, next_base_fee(self.chain))
            quote = self.quote(transaction.signed(OTHER_KEY))
        else:
            quote = self.quote(transaction.unsigned())
            transaction = self.as_quoted(transaction, quote)
        for _ in range(blocks_between):
            self.mine(BLOCK_GAS)
        blob_price = quantity(self.chain, "eth_blobBaseFee")
        raw = transaction.signed(OTHER_KEY if is_signed else relayers.KEY)
        receipt = self.chain.receipt(self.include_blobs(raw) if transaction.type == 3 else self.include(raw))
        assert receipt["status"] == "0x1"
        assert int(receipt["blockNumber"], 16) == int(quote["block_number"]) + blocks_between + 1
        gas, data_charge = int(receipt["gasUsed"], 16), self.data_charge(raw)
        cost = gas * int(receipt["effectiveGasPrice"], 16) + data_charge + self.operator_charge(gas)
        cost += len(transaction.blob_hashes) * BLOB_GAS * blob_price
        (expected, maximum), data_fees = amounts(quote["native"]), amounts(quote["l1_fee"])
        base_fees = before, self.base_fee("latest")
        return Outcome(kind, expected, maximum, cost, base_fees, (*data_fees, data_charge))

    def include(self, signed: bytes) -> str:
        sent = self.chain.send_raw(signed)
        self.mine(BLOCK_GAS - GAS_LIMIT)
        return sent

    def include_blobs(self, signed: bytes) -> str:
        """Send blobs, which Hardhat takes only if it mines them at once."""
        self.chain.rpc("evm_setAutomine", True)
        sent = self.chain.send_raw(with_blobs(signed))
        self.chain.rpc("evm_setAutomine", False)
        return sent

    def turn(self) -> None:
        """Let base fees rise for a while, then fall, and so on."""
        base_fee = self.base_fee("latest")
        if base_fee < LOWEST_BASE_FEE or base_fee > HIGHEST_BASE_FEE:
            self.rises = base_fee < LOWEST_BASE_FEE
        elif self.chance.random() < 0.2:
            self.rises = not self.rises

    def mine(self, others_gas: int) -> None:
        """Mine a block: with so much gas of others that base fees rise, or with nothing beside what was sent."""
        if self.rises:
            tip, data = self.chance.randint(1, 3 * 10**9), b"\1" * ((others_gas - TRANSFER_GAS) // BYTE_GAS)
            fees = {"gas": hex(others_gas), "maxPriorityFeePerGas": hex(tip), "maxFeePerGas": hex(10**12)}
            self.chain.rpc("eth_sendTransaction", self.chain.transaction(self.chain.sender, data) | fees)
        self.chain.mine()

    def base_fee(self, block: str) -> int:
        return int(self.chain.rpc("eth_getBlockByNumber", block, False)["baseFeePerGas"], 16)

    def quote(self, encoded: bytes) -> dict[str, Any]:
        ttl_cache.clear_all()
        params = {"network": self.relayer.network, "transaction": "0x" + encoded.hex(), "fee_tokens": ["COIN"]}
        found: dict[str, Any] = answer(self.relayer, "feeQuote", params)["result"]
        return found

    def work(self, kind: str) -> Transaction:
        """Return a transaction that does this, with neither a nonce nor gas nor prices."""
        chance = self.chance
        token, misbehaving = bytes.fromhex(self.deployed.token_6[2:]), bytes.fromhex(self.deployed.misbehaving[2:])
        # One that nobody has sent anything to, or one that has had something.
        receiver = chance.choice([chance.randbytes(20), bytes.fromhex("be" * 20)])
        slot = chance.choice([REWRITTEN, chance.randint(10**9, 10**12)])
        write = {"to": misbehaving, "data": self.write(slot, chance.randint(1, 6), chance.randint(1, 2**255))}
        fields: dict[str, Callable[[], dict[str, Any]]] = {
            "transfer": lambda: {"to": receiver, "value": chance.randint(1, 10**15)},
            "token transfer": lambda: {
                "to": token,
                "data": encode_call("transfer(address,uint256)", "0x" + receiver.hex(), chance.randint(1, 10**6)),
            },
            "write": lambda: write,
            "clear": lambda: {
                "to": misbehaving,
                "data": self.write(CLEARED + self.made * SLOTS_OF_A_CLEAR, chance.randint(1, SLOTS_OF_A_CLEAR), 0),
            },
            "creation": lambda: {
                "data": contracts()["Aggregator"].creation + encode(["uint8"], [chance.randint(0, 99)])
            },
            "access list": lambda: (
                write
                | {"access_list": ((misbehaving, tuple(chance.randbytes(32) for _ in range(chance.randint(0, 3)))),)}
            ),
            "delegation": lambda: self.delegation(misbehaving) | chance.choice([write, {"to": receiver, "value": 1}]),
            "blob": lambda: {
                "to": receiver,
                "blob_hashes": (bytes.fromhex(EMPTY_BLOB_HASH[2:]),) * chance.randint(1, 3),
            },
        }
        types = {"access list": [1, 2], "delegation": [4], "blob": [3]}
        return Transaction(type=chance.choice(types.get(kind, [0, 1, 2])), **fields[kind]())

    @staticmethod
    def write(slot: int, count: int, value: int) -> bytes:
        return encode_call("write(uint256,uint256,uint256)", slot, count, value)

    def delegation(self, to: bytes) -> dict[str, Any]:
        return {"authorizations": (authorization("0x" + self.chance.randbytes(32).hex(), 31337, to, 0),)}

    def priced(self, transaction: Transaction, base_fee: int) -> Transaction:
        """Return a transaction as another account signs it: with room for what moves, more or less of it."""
        chance, tip = self.chance, self.chance.randint(0, 2 * 10**9)
        is_transfer = not transaction.data and transaction.type == 0
        return replace(
            transaction,
            nonce=quantity(self.chain, "eth_getTransactionCount", address_of(OTHER_KEY), "latest"),
            gas=TRANSFER_GAS if is_transfer else GAS_LIMIT,
            tip=tip,
            gas_price=base_fee * chance.randint(120, 250) // 100 + tip,
            blob_price=chance.choice([2, 10**9]),
        )

    def as_quoted(self, transaction: Transaction, quote: dict[str, Any]) -> Transaction:
        """Return a transaction as the relayer sends it: of type 2 at least, with the quoted maximum as its limit."""
        return replace(
            transaction,
            type=max(transaction.type, 2),
            nonce=quantity(self.chain, "eth_getTransactionCount", relayers.ADDRESS, "latest"),
            gas=int(quote["gas"]["maximum"]),
            gas_price=int(quote["gas_price"]["maximum"]),
            tip=int(quote["gas_price"]["priority_fee"]),
            blob_price=2,
        )


def next_base_fee(chain: Chain) -> int:
    return int(chain.rpc("eth_feeHistory", "0x1", "latest", [])["baseFeePerGas"][-1], 16)


def amounts(quoted: dict[str, str]) -> tuple[int, int]:
    return int(quoted["expected"]), int(quoted["maximum"])


@contextmanager
def mined_by_hand(chain: Chain, deployed: Deployed, relayer: Relayer, seed: int) -> Iterator[Run]:
    """Prepare the chain for a run, and let it mine by itself again at the end."""
    for key in KEYS:
        chain.send(deployed.token_6, "mint(address,uint256)", address_of(key), 2**128)
    cleared = (sum(COUNTS.values()) + 1) * SLOTS_OF_A_CLEAR
    for slot in (REWRITTEN, *range(CLEARED, CLEARED + cleared, 300)):
        chain.send(deployed.misbehaving, "write(uint256,uint256,uint256)", slot, 300, 1)
    limit = chain.rpc("eth_getBlockByNumber", "latest", False)["gasLimit"]
    chain.rpc("evm_setAutomine", False)
    chain.rpc("evm_setBlockGasLimit", hex(BLOCK_GAS))
    chain.set_next_base_fee(20 * 10**9)
    chain.mine()
    try:
        yield Run(chain, deployed, relayer, random.Random(seed))
    finally:
        # Going back to a snapshot leaves these two as they are.
        chain.rpc("evm_setBlockGasLimit", limit)
        chain.rpc("evm_setAutomine", True)


def table(outcomes: Sequence[Outcome]) -> str:
    """Return a table of the outcomes by kind, which docs/fee-estimation.md sums up."""
    rows = [
        "| kind | number | expected / paid - 1: median | lowest | highest | maximum / paid: lowest | highest |",
        "|---|---|---|---|---|---|---|",
    ]
    kinds = list(dict.fromkeys([*COUNTS, *BLOBS]))
    groups = {kind: [one for one in outcomes if one.kind == kind] for kind in kinds}
    for kind, ones in {**groups, "all": list(outcomes)}.items():
        if not ones:
            continue
        errors, ratios = [one.error for one in ones], [Fraction(one.maximum, one.paid) for one in ones]
        shares = (statistics.median(errors), min(errors), max(errors))
        percents = " | ".join(f"{float(100 * share):+.2f}%" for share in shares)
        rows.append(f"| {kind} | {len(ones)} | {percents} | {float(min(ratios)):.3f} | {float(max(ratios)):.3f} |")
    return "\n".join(rows)
