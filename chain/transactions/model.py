"""Transactions, and the fields of each type with their RLP types."""

from dataclasses import dataclass
from typing import Any, Self

from rlp.sedes import BigEndianInt, Binary, CountableList, List, big_endian_int, binary

# Transaction types: legacy (not wrapped by EIP-2718), EIP-2930, EIP-1559, EIP-4844 and EIP-7702.
LEGACY, ACCESS_LIST, DYNAMIC_FEE, BLOB, SET_CODE = range(5)

ADDRESS = Binary.fixed_length(20)
WORK: dict[str, Any] = {
    "gas": big_endian_int,
    "to": Binary.fixed_length(20, allow_empty=True),
    "value": big_endian_int,
    "data": binary,
}
ACCESS: dict[str, Any] = {"accessList": CountableList(List([ADDRESS, CountableList(BigEndianInt(32))]))}
PRICES: dict[str, Any] = {"maxPriorityFeePerGas": big_endian_int, "maxFeePerGas": big_endian_int}
AUTHORIZATION: dict[str, Any] = {
    "chainId": big_endian_int,
    "address": ADDRESS,
    **dict.fromkeys(("nonce", "yParity", "r", "s"), big_endian_int),
}
CHAIN_AND_NONCE: dict[str, Any] = {"chainId": big_endian_int, "nonce": big_endian_int}
PRICED: dict[str, Any] = {**CHAIN_AND_NONCE, **PRICES, **WORK, **ACCESS}
BLOBS: dict[str, Any] = {
    "maxFeePerBlobGas": big_endian_int,
    "blobVersionedHashes": CountableList(Binary.fixed_length(32)),
}
# In the order of the encoding.
FIELDS: dict[int, dict[str, Any]] = {
    LEGACY: {"nonce": big_endian_int, "gasPrice": big_endian_int, **WORK},
    ACCESS_LIST: {**CHAIN_AND_NONCE, "gasPrice": big_endian_int, **WORK, **ACCESS},
    DYNAMIC_FEE: PRICED,
    BLOB: {**PRICED, **BLOBS},
    SET_CODE: {**PRICED, "authorizationList": CountableList(List(AUTHORIZATION.values()))},
}
# EIP-155: the v of a signature is 27 or 28, or contains the chain ID.
PLAIN_V = 27
CHAIN_V = 35
# EIP-4844.
GAS_PER_BLOB = 2**17


class NotATransaction(ValueError):
    """The string is not a valid transaction; the message is for the client."""


@dataclass(frozen=True)
class Prices:
    """The prices that a transaction offers, in wei; None if not set."""

    gas_price: int | None = None
    max_fee: int | None = None
    max_priority_fee: int | None = None
    max_blob_fee: int | None = None

    @property
    def limit(self) -> int | None:
        """The maximum price of a unit of gas."""
        return self.gas_price if self.max_fee is None else self.max_fee

    @classmethod
    def from_values(cls, values: dict[str, Any], is_signed: bool) -> Self:
        """Return the prices in a transaction's fields; in an unsigned transaction, zero means not set."""
        names = ("gasPrice", "maxFeePerGas", "maxPriorityFeePerGas", "maxFeePerBlobGas")
        return cls(*(values.get(name) if is_signed else values.get(name) or None for name in names))


@dataclass(frozen=True, kw_only=True)
class Transaction:
    kind: int
    chain_id: int | None
    # None if it is not signed.
    sender: str | None = None
    to: str | None
    nonce: int = 0
    value: int
    data: bytes
    gas: int
    prices: Prices = Prices()
    access_list: tuple[dict[str, Any], ...] = ()
    blob_hashes: tuple[str, ...] = ()
    authorizations: tuple[dict[str, str], ...] = ()
    # Its encoding without the signature.
    unsigned: bytes = b""

    @property
    def is_signed(self) -> bool:
        return self.sender is not None

    @property
    def gas_limit(self) -> int | None:
        """The final gas limit, or None if it is not signed yet."""
        return self.gas if self.is_signed else None

    @property
    def blob_gas(self) -> int:
        return len(self.blob_hashes) * GAS_PER_BLOB

    def call(self, sender: str) -> dict[str, Any]:
        """Return the params of `eth_estimateGas`, without prices: the sender's balance need not cover them."""
        call: dict[str, Any] = {"from": sender, "value": hex(self.value), "data": f"0x{self.data.hex()}"}
        if self.to is not None:
            call["to"] = self.to
        if self.gas_limit is not None:
            # The node rejects a transaction that would run out of gas.
            call["gas"] = hex(self.gas_limit)
        lists = {
            "accessList": self.access_list,
            "blobVersionedHashes": self.blob_hashes,
            "authorizationList": self.authorizations,
        }
        return call | {name: list(entries) for name, entries in lists.items() if entries}
