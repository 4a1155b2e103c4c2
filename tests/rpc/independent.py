"""Transactions and their fees, worked out beside the service: with none of its code, and with integers alone.

Fractions are pairs of a numerator and a denominator. The formula is that of docs/fee-estimation.md.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import rlp
from eth_keys.datatypes import PrivateKey
from eth_utils.crypto import keccak

from tests.rpc.chain import GAS_PRICE_ORACLE, Chain, NodeError

CHAIN_ID = 31337
BLOB_GAS = 131_072
RATE_DIGITS = 40

# The types of transactions, with what tells each from the others.
KINDS: dict[str, dict[str, Any]] = {
    "legacy": {"type": 0},
    "legacy without chain id": {"type": 0, "chain_id": None},
    "2930": {"type": 1},
    "1559": {"type": 2},
    "4844": {"type": 3},
    "7702": {"type": 4},
}

Ratio = tuple[int, int]
# Chain id, address, nonce, parity, r and s.
Authorization = tuple[int, bytes, int, int, int, int]


def as_bytes(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def as_field(value: object) -> bytes:
    return value if isinstance(value, bytes) else as_bytes(cast(int, value))


def as_hex(value: object) -> str:
    return "0x" + value.hex() if isinstance(value, bytes) else hex(cast(int, value))


@dataclass(frozen=True)
class Transaction:
    """The fields of a transaction, of which each type has its own; addresses and hashes are bytes."""

    type: int = 2
    # Only a legacy transaction may have none.
    chain_id: int | None = CHAIN_ID
    nonce: int = 0
    gas: int = 0
    # A legacy one has one price; the others have the tip and the most that the whole may be.
    gas_price: int = 0
    tip: int = 0
    to: bytes = b""
    value: int = 0
    data: bytes = b""
    access_list: tuple[tuple[bytes, tuple[bytes, ...]], ...] = ()
    blob_price: int = 0
    blob_hashes: tuple[bytes, ...] = ()
    authorizations: tuple[Authorization, ...] = ()

    def fields(self) -> list[Any]:
        """Return the fields in their order, as RLP takes them."""
        prices = [self.gas_price] if self.type < 2 else [self.tip, self.gas_price]
        fields: list[Any] = [*map(as_bytes, [self.nonce, *prices, self.gas]), self.to, as_bytes(self.value), self.data]
        if self.type == 0:
            return fields
        fields = [as_bytes(self.chain_id or 0), *fields, self.access_list]
        if self.type == 3:
            fields += [as_bytes(self.blob_price), self.blob_hashes]
        if self.type == 4:
            fields.append([[as_field(each) for each in one] for one in self.authorizations])
        return fields

    @property
    def prefix(self) -> bytes:
        return bytes([self.type]) if self.type else b""

    def unsigned(self) -> bytes:
        for_the_chain = [as_bytes(self.chain_id), b"", b""] if self.type == 0 and self.chain_id else []
        return self.prefix + bytes(rlp.encode([*self.fields(), *for_the_chain]))

    def signed(self, key: str) -> bytes:
        parity, r, s = signature(key, self.unsigned())
        v = parity if self.type else parity + (35 + 2 * self.chain_id if self.chain_id else 27)
        return self.prefix + bytes(rlp.encode([*self.fields(), *map(as_bytes, [v, r, s])]))

    def call(self, sender: str) -> dict[str, Any]:
        """Return the transaction as the node takes it for an estimate."""
        call: dict[str, Any] = {"from": sender, "value": hex(self.value), "data": "0x" + self.data.hex()}
        if self.to:
            call["to"] = "0x" + self.to.hex()
        if self.access_list:
            call["accessList"] = [
                {"address": "0x" + address.hex(), "storageKeys": ["0x" + each.hex() for each in storage]}
                for address, storage in self.access_list
            ]
        if self.type == 3:
            call["blobVersionedHashes"] = ["0x" + each.hex() for each in self.blob_hashes]
        if self.type == 4:
            names = ("chainId", "address", "nonce", "yParity", "r", "s")
            call["authorizationList"] = [
                {name: as_hex(each) for name, each in zip(names, one, strict=True)} for one in self.authorizations
            ]
        return call


def signature(key: str, message: bytes) -> tuple[int, int, int]:
    made = PrivateKey(bytes.fromhex(key[2:])).sign_msg_hash(keccak(message))
    return made.v, made.r, made.s


def address_of(key: str) -> str:
    return PrivateKey(bytes.fromhex(key[2:])).public_key.to_checksum_address()


def authorization(key: str, chain_id: int, address: bytes, nonce: int) -> Authorization:
    message = b"\x05" + bytes(rlp.encode([as_bytes(chain_id), address, as_bytes(nonce)]))
    return (chain_id, address, nonce, *signature(key, message))


@dataclass(frozen=True)
class Terms:
    """What a fee depends on besides the transaction, the chain and the token."""

    policies: dict[str, Any]
    tip_floor: int
    base_fee_margin_bps: int
    gas_buffer_bps: int
    l1_fee: str


def native_fee(chain: Chain, transaction: Transaction, sender: str, terms: Terms) -> Ratio:
    """Return the fee in wei, over 10^8: the buffer and the margin of the base fee divide by 10^4 each."""
    if terms.policies.get("gas_limit_estimation", True):
        gas = quantity(chain, "eth_estimateGas", transaction.call(sender)) * (10_000 + terms.gas_buffer_bps)
    else:
        gas = transaction.gas * 10_000
    if terms.policies.get("eip1559_pricing", True):
        base_fee, tip = market(chain)
        price = base_fee * (10_000 + terms.base_fee_margin_bps) + max(tip, terms.tip_floor) * 10_000
    else:
        price = quantity(chain, "eth_gasPrice") * 10_000
    if "gas_price_cap" in terms.policies:
        price = min(price, terms.policies["gas_price_cap"] * 10_000)
    fee = gas * price
    if terms.l1_fee == "op-stack":
        fee += op_stack_fee(chain, transaction.unsigned(), ceil((gas, 10_000))) * 10**8
    if transaction.blob_hashes:
        blob_fee = len(transaction.blob_hashes) * BLOB_GAS * quantity(chain, "eth_blobBaseFee")
        fee += blob_fee * (10_000 + terms.base_fee_margin_bps) * 10_000
    return fee, 10**8


def market(chain: Chain) -> Ratio:
    """Return the base fee of the next block and the tip to offer, from the last ten blocks."""
    history = chain.rpc("eth_feeHistory", "0xa", "latest", [40, 50, 60, 70])
    first, count = int(history["oldestBlock"], 16), len(history["reward"])
    blocks = [chain.rpc("eth_getBlockByNumber", hex(first + number), False) for number in range(count)]
    # How full they are on average, as a fraction: from their gas itself, not from the ratios of the history.
    limits = math.lcm(*(int(block["gasLimit"], 16) for block in blocks))
    used = sum(int(block["gasUsed"], 16) * limits // int(block["gasLimit"], 16) for block in blocks)
    # Over 0.9 p70, over 0.7 p60, over 0.5 p50, else p40.
    column = sum(10 * used > tenths * limits * count for tenths in (5, 7, 9))
    tips = sorted(int(rewards[column], 16) for rewards in history["reward"])
    return int(history["baseFeePerGas"][count], 16), tips[count // 2]


def op_stack_fee(chain: Chain, unsigned: bytes, gas: int) -> int:
    """Return the L1 data fee and the operator fee, which an older oracle does not have."""
    l1_fee: int = chain.call(GAS_PRICE_ORACLE, "getL1Fee(bytes)(uint256)", unsigned)
    try:
        operator_fee: int = chain.call(GAS_PRICE_ORACLE, "getOperatorFee(uint256)(uint256)", gas)
    except NodeError:
        operator_fee = 0
    return l1_fee + operator_fee


def quantity(chain: Chain, method: str, *params: Any) -> int:
    return int(chain.rpc(method, *params), 16)


def chainlink_usd_rate(chain: Chain, feed: str, native_feed: str) -> Ratio:
    token, token_scale = feed_answer(chain, feed)
    native, native_scale = feed_answer(chain, native_feed)
    return native * token_scale, native_scale * token


def chainlink_native_rate(chain: Chain, feed: str) -> Ratio:
    answer, scale = feed_answer(chain, feed)
    return scale, answer


def feed_answer(chain: Chain, feed: str) -> Ratio:
    answer = chain.call(feed, "latestRoundData()(uint80,int256,uint256,uint256,uint80)")[1]
    return answer, 10 ** chain.call(feed, "decimals()(uint8)")


def pair_rate(chain: Chain, pair: str, token: str) -> Ratio:
    """Return the ratio of a pair's reserves, of which the other is the wrapped coin with 18 decimals."""
    reserves = chain.call(pair, "getReserves()(uint112,uint112,uint32)")[:2]
    is_second = chain.call(pair, "token0()(address)") != token.lower()
    return reserves[is_second] * 10**18, reserves[not is_second] * 10 ** chain.call(token, "decimals()(uint8)")


def fixed_rate(text: str) -> Ratio:
    whole, _, part = text.partition(".")
    return int(whole + part), 10 ** len(part)


def median(rates: Sequence[Ratio]) -> Ratio:
    """Return the one in the middle, or the mean of the two there."""
    ordered = sorted(rates, key=functools.cmp_to_key(difference))
    (a, b), (c, d) = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return a * d + c * b, 2 * b * d


def difference(one: Ratio, other: Ratio) -> int:
    return one[0] * other[1] - other[0] * one[1]


def token_fee(native: Ratio, rate: Ratio, decimals: int, margin_bps: int) -> int:
    """Return a fee in a token's smallest unit: rounded up, once, and at least one."""
    return max(
        1,
        ceil((native[0] * rate[0] * 10**decimals * (10_000 + margin_bps), native[1] * rate[1] * 10**18 * 10_000)),
    )


def ceil(ratio: Ratio) -> int:
    return -(-ratio[0] // ratio[1])


def units_text(units: int, decimals: int) -> str:
    """Write an amount of the smallest unit in whole ones: digits, and no more of them than are needed."""
    digits = str(units).zfill(decimals + 1)
    whole, part = digits[: len(digits) - decimals], digits[len(digits) - decimals :].rstrip("0")
    return f"{whole}.{part}" if part else whole


def rate_text(rate: Ratio) -> str:
    """Write a rate with 40 significant digits at most, the last one rounded half to even."""
    places = 0
    while scaled(rate, places)[0] < 10 ** (RATE_DIGITS - 1) * scaled(rate, places)[1]:
        places += 1
    while scaled(rate, places)[0] >= 10**RATE_DIGITS * scaled(rate, places)[1]:
        places -= 1
    above, below = scaled(rate, places)
    digits, rest = divmod(above, below)
    digits += 2 * rest > below or (2 * rest == below and digits % 2)
    return units_text(digits, places) if places > 0 else str(digits * 10**-places)


def scaled(ratio: Ratio, places: int) -> Ratio:
    above, below = ratio
    return (above * 10**places, below) if places > 0 else (above, below * 10**-places)
