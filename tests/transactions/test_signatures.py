"""The signature of an attempt, from its bytes."""

from __future__ import annotations

from typing import Any

import pytest
import rlp
from eth_account import Account
from eth_account._utils.legacy_transactions import serializable_unsigned_transaction_from_dict
from eth_keys.datatypes import Signature

from tests.relayers.factories import ADDRESS, KEY
from transactions.models import Attempt
from transactions.records.representation import signature

TO = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
BASE: dict[str, Any] = {"to": TO, "value": 1, "gas": 21_000, "data": "0x00ff"}
EIP_1559 = BASE | {"type": 2, "chainId": 1, "maxFeePerGas": 30, "maxPriorityFeePerGas": 3}


@pytest.mark.parametrize(
    "fields",
    [
        *(EIP_1559 | {"nonce": nonce} for nonce in range(4)),
        *(BASE | {"chainId": chain_id, "gasPrice": 30, "nonce": 0} for chain_id in (1, 11155111)),
        *(BASE | {"gasPrice": 30, "nonce": nonce} for nonce in range(2)),
    ],
)
def test_the_signature_recovers_the_account(fields: dict[str, Any]) -> None:
    signed = Account.sign_transaction(fields, KEY)
    shown = signature(Attempt(raw=bytes(signed.raw_transaction)))
    assert (int(shown["r"], 16), int(shown["s"], 16)) == (signed.r, signed.s)
    assert [len(shown[name]) for name in ("r", "s", "sig")] == [64, 64, 130]
    assert shown["sig"] == f"{shown['r']}{shown['s']}{shown['v']:x}"
    # Ethereum's parity is 0 or 1 where the signature has 27 or 28.
    parity = shown["v"] - 27
    recovered = Signature(vrs=(parity, signed.r, signed.s)).recover_public_key_from_msg_hash(signing_hash(fields))
    assert recovered.to_checksum_address() == ADDRESS


def signing_hash(fields: dict[str, Any]) -> bytes:
    """Return the hash that is signed, from the library."""
    return bytes(serializable_unsigned_transaction_from_dict(fields).hash())


def test_leading_zeros_are_kept() -> None:
    raw = b"\x02" + rlp.encode([b""] * 9 + [b"", b"\x05", b"\x06"])
    shown = signature(Attempt(raw=raw))
    assert (shown["r"], shown["s"], shown["v"]) == (f"{5:064x}", f"{6:064x}", 27)
