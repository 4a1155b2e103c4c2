"""Transactions and their fees, worked out beside the service: with none of its code, and with integers alone.

Fractions are pairs of a numerator and a denominator. The formula is that of docs/fee-estimation.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import rlp
from eth_keys.datatypes import PrivateKey
from eth_utils.crypto import keccak

from tests.chain.hardhat import GAS_PRICE_ORACLE, SCROLL_ORACLE, Chain, NodeError
from tests.chain.rollup_fees import op_stack_l1_fee, scroll_l1_fee, scroll_length

CHAIN_ID = 31337
BLOB_GAS = 131_072
RATE_DIGITS = 40
# What the L1 fees of an OP-stack chain and of Scroll are made of, in the order that the formulas take it.
OP_STACK_PRICES = ("l1BaseFee", "blobBaseFee", "baseFeeScalar", "blobBaseFeeScalar")
SCROLL_PRICES = ("l1BaseFee", "l1BlobBaseFee", "commitScalar", "blobScalar", "penaltyFactor")
# What stands for the fields that are blank until a transaction is sent, and for the r and s of its signature.
PLACEHOLDERS = {"nonce": 0x2D9B, "gas": 0x03F27C, "gas_price": 0x51B86E17, "tip": 0x0F93A6}
PLACEHOLDER_SIGNATURE = [int.from_bytes(keccak(text=name)) for name in "rs"]

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
        return self.encoded(self.v(parity), r, s)

    def v(self, parity: int) -> int:
        return parity if self.type else parity + (35 + 2 * self.chain_id if self.chain_id else 27)

    def encoded(self, v: int, r: int, s: int) -> bytes:
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
    kind: str
    l1_fee_margin_bps: int = 1_000


class Refused(Exception):
    """Why there is no fee: the whole error that a caller gets."""

    def __init__(self, code: int, message: str, description: str) -> None:
        super().__init__(description)
        self.error = {"code": code, "message": message, "description": description}


def cannot_be_included(why: str) -> Refused:
    return Refused(-32003, "Execution reverted", f"The transaction cannot be included: {why}.")


def native_fee(chain: Chain, transaction: Transaction, sender: str, terms: Terms, *, is_signed: bool = False) -> Ratio:
    """Return the maximum in wei, over 10^8."""
    return native_fees(chain, transaction, sender, terms, is_signed=is_signed)[1]


def native_fees(
    chain: Chain, transaction: Transaction, sender: str, terms: Terms, *, is_signed: bool
) -> tuple[Ratio, Ratio]:
    """Return what is expected and the maximum in wei, over 10^8: gas and its price are over 10^4 each."""
    gas = gas_of(chain, transaction, sender, terms, is_signed)
    price = price_of(chain, transaction, terms, is_signed)
    blob_price = blob_price_of(chain, transaction, terms, is_signed)
    margins = (10_000, 10_000 + terms.l1_fee_margin_bps)
    l1_fee = l1_fee_of(chain, transaction, terms.kind, is_signed)
    expected, maximum = (
        gas[each] * price[each]
        + len(transaction.blob_hashes) * BLOB_GAS * blob_price[each] * 10_000
        + l1_fee * margins[each] * 10_000
        + operator_fee(chain, terms.kind, ceil((gas[each], 10_000))) * 10**8
        for each in (0, 1)
    )
    return (expected, 10**8), (maximum, 10**8)


def gas_of(chain: Chain, transaction: Transaction, sender: str, terms: Terms, is_signed: bool) -> Ratio:
    """Return the gas that is expected and the maximum, both over 10^4."""
    estimates = terms.policies.get("gas_limit_estimation", True)
    limit, least = transaction.gas, intrinsic_gas(transaction)
    if (is_signed or not estimates) and limit < least:
        raise cannot_be_included(f"its gas limit is {limit}, and it needs at least {least}")
    if not estimates:
        return limit * 10_000, limit * 10_000
    limited = {"gas": hex(limit)} if is_signed else {}
    try:
        gas = quantity(chain, "eth_estimateGas", transaction.call(sender) | limited)
    except NodeError as error:
        assert "out of gas" in str(error)
        description = "The transaction cannot be executed: it needs more gas than its limit."
        raise Refused(-32003, "Execution reverted", description) from None
    # This node answers with one more than a transfer needs, even if it may not use that.
    gas = min(gas, limit) if is_signed else gas
    is_transfer = gas == 21_000 and terms.kind != "arbitrum"
    buffered = gas * (10_000 + (0 if is_transfer else terms.gas_buffer_bps))
    # A signed one may use a whole unit more.
    return gas * 10_000, min(ceil((buffered, 10_000)), limit) * 10_000 if is_signed else buffered


def intrinsic_gas(transaction: Transaction) -> int:
    """Return what a transaction needs before it does anything, by the EIPs 2028, 2930, 3860, 7623 and 7702."""
    zeros, size = transaction.data.count(0), len(transaction.data)
    gas = 21_000 + 4 * zeros + 16 * (size - zeros) + 25_000 * len(transaction.authorizations)
    if not transaction.to:
        gas += 32_000 + 2 * ceil((size, 32))
    gas += sum(2_400 + 1_900 * len(storage) for _, storage in transaction.access_list)
    return max(gas, 21_000 + 10 * zeros + 40 * (size - zeros))


def price_of(chain: Chain, transaction: Transaction, terms: Terms, is_signed: bool) -> Ratio:
    """Return the price of gas that is expected and the maximum, both over 10^4."""
    has_tip = transaction.type >= 2
    # A price of zero is one if it is signed, and else not set.
    own = transaction.gas_price if is_signed or transaction.gas_price else None
    cap = None if is_signed else terms.policies.get("gas_price_cap")
    if terms.policies.get("eip1559_pricing", True):
        base_fee, offered = market(chain)
        check_offer(own, cap, base_fee, price_text(base_fee))
        if terms.kind == "arbitrum":
            tip = 0
        elif is_signed:
            tip = transaction.tip if has_tip else transaction.gas_price - base_fee
        else:
            tip = max(offered, terms.tip_floor)
            tip = min(tip, transaction.tip) if has_tip and transaction.tip else tip
        expected = (base_fee + tip) * 10_000
        maximum = base_fee * (10_000 + terms.base_fee_margin_bps) + tip * 10_000
    else:
        last = int(chain.rpc("eth_getBlockByNumber", "latest", False)["baseFeePerGas"], 16)
        # An eighth less is the most that it can fall.
        lowest, price = last - last // 8, quantity(chain, "eth_gasPrice")
        check_offer(own, cap, lowest, f"at least {price_text(lowest)}")
        if price < lowest:
            raise Refused(-32005, "Insufficient data", "The node's gas price is below its base fee.")
        expected = maximum = (transaction.gas_price if is_signed else price) * 10_000
    limits = [each * 10_000 for each in (own, cap) if each is not None]
    return min([expected, *limits]), min([maximum, *limits])


def check_offer(own: int | None, cap: int | None, base_fee: int, words: str) -> None:
    if cap is not None and cap < base_fee:
        raise Refused(
            -32004,
            "Policy refused",
            f"The relayer's policy gas_price_cap is {price_text(cap)}, below the next base fee of {words}: no "
            "transaction would be included at that price.",
        )
    if own is not None and own < base_fee:
        raise cannot_be_included(f"it offers {price_text(own)} per gas, below the next base fee of {words}")


def blob_price_of(chain: Chain, transaction: Transaction, terms: Terms, is_signed: bool) -> Ratio:
    """Return the price of blob gas that is expected and the maximum, both over 10^4."""
    if not transaction.blob_hashes:
        return 0, 0
    price, own = quantity(chain, "eth_blobBaseFee"), transaction.blob_price
    is_set = is_signed or bool(own)
    if is_set and own < price:
        offer = f"it offers {price_text(own)} per blob gas"
        raise cannot_be_included(f"{offer}, below the blob base fee of {price_text(price)}")
    maximum = price * (10_000 + terms.base_fee_margin_bps)
    return price * 10_000, min(maximum, own * 10_000) if is_set else maximum


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


def l1_fee_of(chain: Chain, transaction: Transaction, kind: str, is_signed: bool) -> int:
    """Return what the network's oracle tells of the transaction's data, in the network's coin."""
    if kind not in {"op-stack", "mantle", "scroll"}:
        return 0
    sent = transaction if is_signed else filled(transaction)
    if kind == "scroll":
        length = scroll_length(sent.encoded(sent.v(1 if sent.type else 0), *PLACEHOLDER_SIGNATURE))
        return scroll_l1_fee(length, *values_of(chain, SCROLL_ORACLE, SCROLL_PRICES))
    fee = op_stack_l1_fee(sent.unsigned(), *values_of(chain, GAS_PRICE_ORACLE, OP_STACK_PRICES))
    ratio: int = chain.call(GAS_PRICE_ORACLE, "tokenRatio()(uint256)") if kind == "mantle" else 1
    return fee * ratio


def values_of(chain: Chain, contract: str, names: Sequence[str]) -> list[int]:
    return [chain.call(contract, f"{name}()(uint256)") for name in names]


def filled(transaction: Transaction) -> Transaction:
    """Return an unsigned transaction with a placeholder in each field that is blank until it is sent."""
    fields: dict[str, Any] = {name: getattr(transaction, name) or value for name, value in PLACEHOLDERS.items()}
    return replace(transaction, **fields)


def operator_fee(chain: Chain, kind: str, gas: int) -> int:
    """Return the operator fee, which an older oracle does not have."""
    if kind not in {"op-stack", "mantle"}:
        return 0
    try:
        return int(chain.call(GAS_PRICE_ORACLE, "getOperatorFee(uint256)(uint256)", gas))
    except NodeError:
        return 0


def quantity(chain: Chain, method: str, *params: Any) -> int:
    return int(chain.rpc(method, *params), 16)


def fixed_rate(text: str) -> Ratio:
    whole, _, part = text.partition(".")
    return int(whole + part), 10 ** len(part)


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


def price_text(price: int) -> str:
    """Write a price of gas in gwei, and in wei if it is below a thousandth of one."""
    return f"{price} wei" if 0 < price < 10**6 else f"{units_text(price, 9)} gwei"


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
