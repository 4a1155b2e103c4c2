"""Transactions of every type, as eth-account signs them, and without their signature."""

from __future__ import annotations

from typing import Any

import rlp
from eth_account import Account

from tests.chain.hardhat import EMPTY_BLOB_HASH

# The second account that Hardhat starts with; its key is public.
KEY = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"
SENDER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
RECEIVER = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"
HARDHAT_CHAIN = 31337
SEPOLIA_CHAIN = 11155111

# How many fields of each type come before the signature.
FIELDS = {0: 6, 1: 8, 2: 9, 3: 11, 4: 10}

COMMON = {"chainId": HARDHAT_CHAIN, "nonce": 7, "gas": 50_000, "to": RECEIVER, "value": 10**18 + 1, "data": "0xfeed"}
PRICED = {"gasPrice": 2_000_000_000}
DYNAMIC = {"maxFeePerGas": 3_000_000_000, "maxPriorityFeePerGas": 1_000_000_000}
ACCESS_LIST = {"accessList": [{"address": RECEIVER, "storageKeys": [f"0x{1:064x}", f"0x{2**255:064x}"]}]}


def authorization(nonce: int = 3) -> Any:
    return Account.sign_authorization({"chainId": HARDHAT_CHAIN, "address": RECEIVER, "nonce": nonce}, KEY)


def fields(kind: int, **changes: Any) -> dict[str, Any]:
    """Return a transaction of a type as eth-account takes it, with changes."""
    own: dict[int, dict[str, Any]] = {
        0: PRICED,
        1: PRICED | ACCESS_LIST | {"type": 1},
        2: DYNAMIC | ACCESS_LIST | {"type": 2},
        3: DYNAMIC | {"type": 3, "maxFeePerBlobGas": 5, "blobVersionedHashes": [EMPTY_BLOB_HASH] * 2},
        4: DYNAMIC | {"type": 4},
    }
    if kind == 4 and "authorizationList" not in changes:
        changes["authorizationList"] = [authorization()]
    return COMMON | own[kind] | changes


def signed(kind: int, **changes: Any) -> bytes:
    return bytes(Account.sign_transaction(fields(kind, **changes), KEY).raw_transaction)


def items_of(encoded: bytes) -> list[Any]:
    """Return the fields of an encoded transaction, whatever its type."""
    items: list[Any] = list(rlp.decode(encoded if encoded[0] >= 0xC0 else encoded[1:]))
    return items


def encode(kind: int, items: list[Any]) -> bytes:
    return (bytes([kind]) if kind else b"") + bytes(rlp.encode(items))


def unsigned(kind: int, **changes: Any) -> bytes:
    """Return a transaction as it is before it is signed; of the legacy type as EIP-155 has it."""
    items = items_of(signed(kind, **changes))[: FIELDS[kind]]
    if kind == 0:
        items += [number(changes.get("chainId", HARDHAT_CHAIN)), b"", b""]
    return encode(kind, items)


def transfer(chain_id: int = HARDHAT_CHAIN) -> str:
    """Return an unsigned transfer, as a caller sends it."""
    return text(unsigned(2, chainId=chain_id, data="0x"))


def text(encoded: bytes) -> str:
    return f"0x{encoded.hex()}"


def number(value: int) -> bytes:
    """Return a number as a field of a transaction has it."""
    return value.to_bytes((value.bit_length() + 7) // 8)


def nested_lists(depth: int) -> bytes:
    """Return a list in a list in a list, each well encoded."""
    prefixes, length = [b"\xc0"], 1
    for _ in range(depth):
        size = number(length)
        prefixes.append(bytes([0xC0 + length]) if length < 56 else bytes([0xF7 + len(size)]) + size)
        length += len(prefixes[-1])
    return b"".join(reversed(prefixes))
