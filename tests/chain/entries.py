"""Signed transactions as nodes report them in blocks."""

from __future__ import annotations

from typing import Any

from eth_account import Account
from eth_utils.crypto import keccak

from tests.chain.encoded import items_of

WORK = ("gas", "to", "value", "input")
PRICED = ("chainId", "nonce", "maxPriorityFeePerGas", "maxFeePerGas", *WORK, "accessList")
# The fields of each type, in the order of its encoding.
NAMES = {
    0: ("nonce", "gasPrice", *WORK, "v", "r", "s"),
    1: ("chainId", "nonce", "gasPrice", *WORK, "accessList", "yParity", "r", "s"),
    2: (*PRICED, "yParity", "r", "s"),
    3: (*PRICED, "maxFeePerBlobGas", "blobVersionedHashes", "yParity", "r", "s"),
    4: (*PRICED, "authorizationList", "yParity", "r", "s"),
}
AUTHORIZATION = ("chainId", "address", "nonce", "yParity", "r", "s")


def entry(raw: bytes, **changes: Any) -> dict[str, Any]:
    """Return the entry of a signed transaction in a block, with changes."""
    kind = raw[0] if raw[0] < 0xC0 else 0
    values = {name: _json(name, item) for name, item in zip(NAMES[kind], items_of(raw), strict=True)}
    if kind:
        values["v"] = values["yParity"]
    sender = Account.recover_transaction(raw).lower()
    return {"type": hex(kind), "hash": f"0x{keccak(raw).hex()}", "from": sender} | values | changes


def _json(name: str, item: Any) -> Any:
    if name == "accessList":
        return [{"address": _text(address), "storageKeys": [_text(key) for key in keys]} for address, keys in item]
    if name == "authorizationList":
        return [{key: _json(key, part) for key, part in zip(AUTHORIZATION, each, strict=True)} for each in item]
    if name == "blobVersionedHashes":
        return [_text(each) for each in item]
    if name in {"to", "address", "input"}:
        return None if name == "to" and not item else _text(item)
    return hex(int.from_bytes(item))


def _text(item: bytes) -> str:
    return f"0x{item.hex()}"
