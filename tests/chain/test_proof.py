"""Entries of blocks: what their signatures prove, for each type of transaction and each field that is changed."""

from __future__ import annotations

from typing import Any

import pytest
from eth_account import Account
from eth_keys.constants import SECPK1_N
from eth_utils.crypto import keccak

from chain.transactions import decode
from chain.transactions.proof import recover
from tests.chain.encoded import FIELDS, KEY, RECEIVER, SENDER, encode, fields, items_of, number, signed, text
from tests.chain.entries import NAMES, entry
from tests.chain.hardhat import EMPTY_BLOB_HASH

PLAIN = {name: value for name, value in fields(0).items() if name != "chainId"}
TWO_ENTRIES = [{"address": RECEIVER, "storageKeys": []}, {"address": SENDER, "storageKeys": ["0x" + "00" * 32]}]
TRANSACTIONS = [
    # Legacy, as before EIP-155: it names no chain.
    bytes(Account.sign_transaction(PLAIN, KEY).raw_transaction),
    signed(2, to=None),
    signed(2, accessList=TWO_ENTRIES),
    *(signed(kind) for kind in FIELDS),
]


@pytest.mark.parametrize("raw", TRANSACTIONS)
def test_the_sender_of_each_type_is_recovered(raw: bytes) -> None:
    found = recover(entry(raw))
    assert found == decode(text(raw))
    assert found is not None
    assert (found.sender, found.nonce) == (SENDER, 7)


def changed(value: Any) -> Any:
    """Return another value of the same shape."""
    if isinstance(value, list):
        return value[1:]
    if value is None:
        return RECEIVER.lower()
    return f"{value[:-1]}{'1' if value[-1] != '1' else '2'}" if len(value) > 2 else "0x01"


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in NAMES for name in (*NAMES[kind], "hash", "type")])
def test_an_entry_with_any_other_field_proves_nothing(kind: int, name: str) -> None:
    honest = entry(signed(kind, accessList=fields(2)["accessList"]) if kind > 2 else signed(kind))
    assert recover(honest) is not None
    assert recover(honest | {name: changed(honest[name])}) is None


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (2, "accessList", [{"address": RECEIVER, "storageKeys": [f"0x{1:064x}", f"0x{3:064x}"]}]),
        (2, "accessList", [{"address": SENDER, "storageKeys": [f"0x{1:064x}", f"0x{2**255:064x}"]}]),
        (3, "blobVersionedHashes", [EMPTY_BLOB_HASH, "0x01" + "ab" * 31]),
        (4, "authorizationList", [{"address": SENDER}]),
        (4, "authorizationList", [{"nonce": "0x4"}]),
        (4, "authorizationList", [{"chainId": "0x1"}]),
    ],
)
def test_an_entry_with_other_parts_of_a_list_proves_nothing(kind: int, name: str, value: Any) -> None:
    honest = entry(signed(kind))
    if name == "authorizationList":
        value = [honest[name][0] | value[0]]
    assert recover(honest | {name: value}) is None


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"hash": None},
        # A deposit of the OP stack, and system transactions of Arbitrum and zkSync.
        *(entry(signed(2)) | {"type": kind} for kind in ("0x7e", "0x64")),
        entry(signed(2)) | {"type": "dynamic"},
        entry(signed(2)) | {"accessList": None},
        entry(signed(2)) | {"accessList": [None]},
        entry(signed(2)) | {"to": 7, "input": 7},
        entry(signed(2)) | {"value": hex(2**300)},
        entry(signed(4)) | {"authorizationList": [{}]},
    ],
)
def test_an_entry_without_a_known_signature_proves_nothing(found: dict[str, Any]) -> None:
    assert recover(found) is None


@pytest.mark.parametrize("kind", FIELDS)
def test_the_other_signature_of_the_same_key_proves_nothing(kind: int) -> None:
    """Anyone can compute it from ours, and no block accepts it: its s is in the upper half (EIP-2)."""
    items = items_of(signed(kind))
    v, s = (int.from_bytes(items[position]) for position in (-3, -1))
    flipped = v + 1 if v % 2 == (kind == 0) else v - 1
    items[-3], items[-1] = number(flipped), number(SECPK1_N - s)
    twin = encode(kind, items)
    found = entry(signed(kind)) | {
        "hash": f"0x{keccak(twin).hex()}",
        "v": hex(flipped),
        "yParity": hex(flipped),
        "s": hex(SECPK1_N - s),
    }
    assert recover(found) is None


def test_nodes_report_the_parity_as_v_or_as_y_parity() -> None:
    honest = entry(signed(2))
    assert recover({key: value for key, value in honest.items() if key != "v"}) is not None
    assert recover({key: value for key, value in honest.items() if key != "yParity"}) is not None
