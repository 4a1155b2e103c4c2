"""Drafts against eth-account: what is signed, and what is broadcast."""

from __future__ import annotations

from typing import Any

import pytest
from eth_account import Account
from eth_account._utils.legacy_transactions import serializable_unsigned_transaction_from_dict
from eth_utils.crypto import keccak
from hypothesis import given
from hypothesis import strategies as st

from chain.transactions import Draft, Prices, decode, transaction_hash
from tests.chain.encoded import KEY, RECEIVER, SENDER

LEGACY = Prices(gas_price=2_000_000_000)
DYNAMIC = Prices(max_fee=3_000_000_000, max_priority_fee=1_000_000_000)
COMMON: dict[str, Any] = {
    "chain_id": 31337,
    "nonce": 7,
    "to": RECEIVER,
    "value": 10**18 + 1,
    "data": b"\xfe\xed",
    "gas": 50_000,
}
MAX_UINT256 = 2**256 - 1
CASES: list[dict[str, Any]] = [
    {},
    {"nonce": 0, "value": 0, "data": b"", "gas": 0},
    # A single byte is its own encoding below 0x80.
    {"nonce": 127, "value": 127, "data": b"\x7f"},
    {"nonce": 128, "value": 128, "data": b"\x80"},
    {"chain_id": 2**53 + 1, "nonce": 2**64 - 2, "value": MAX_UINT256, "gas": 2**64 - 1},
    {"to": "", "data": b"\x60\x00"},
    {"to": "0x" + "00" * 20, "data": b""},
    {"data": b"\x01" * 55},
    {"data": b"\x01" * 56},
    {"data": bytes(range(256)) * 480},
]
PRICES = [
    LEGACY,
    Prices(gas_price=0),
    Prices(gas_price=MAX_UINT256),
    DYNAMIC,
    Prices(max_fee=0, max_priority_fee=0),
    Prices(max_fee=MAX_UINT256, max_priority_fee=MAX_UINT256),
]


def fields(draft: Draft) -> dict[str, Any]:
    """Return a draft as eth-account takes it."""
    prices: dict[str, Any] = {"gasPrice": draft.prices.gas_price}
    if draft.prices.gas_price is None:
        prices = {
            "type": 2,
            "maxFeePerGas": draft.prices.max_fee,
            "maxPriorityFeePerGas": draft.prices.max_priority_fee,
        }
    return prices | {
        "chainId": draft.chain_id,
        "nonce": draft.nonce,
        "to": draft.to,
        "value": draft.value,
        "data": draft.data,
        "gas": draft.gas,
    }


def check(draft: Draft) -> None:
    """Compare the digest, the signed bytes and their hash with those of eth-account."""
    expected = Account.sign_transaction(fields(draft), KEY)
    recovery_id = expected.v if draft.prices.gas_price is None else expected.v - 35 - 2 * draft.chain_id
    raw = draft.signed(recovery_id, expected.r, expected.s)
    assert decode(f"0x{raw.hex()}").sender == SENDER
    assert draft.digest == bytes(serializable_unsigned_transaction_from_dict(fields(draft)).hash())
    assert raw == bytes(expected.raw_transaction)
    assert transaction_hash(raw) == "0x" + bytes(expected.hash).hex() == "0x" + keccak(raw).hex()


@pytest.mark.parametrize("prices", PRICES)
def test_a_draft_is_encoded_as_eth_account_does(prices: Prices) -> None:
    for changes in CASES:
        check(Draft(**(COMMON | changes), prices=prices))


UINT256 = st.integers(0, MAX_UINT256)


@given(
    common=st.fixed_dictionaries(
        {
            "chain_id": st.integers(1, 2**64),
            "nonce": st.integers(0, 2**64 - 2),
            "to": st.just("") | st.just(RECEIVER),
            "value": UINT256,
            "data": st.binary(max_size=200),
            "gas": st.integers(0, 2**64 - 1),
        }
    ),
    prices=UINT256.map(lambda price: Prices(gas_price=price))
    | UINT256.flatmap(lambda most: st.integers(0, most).map(lambda tip: Prices(max_fee=most, max_priority_fee=tip))),
)
def test_any_draft_is_encoded_as_eth_account_does(common: dict[str, Any], prices: Prices) -> None:
    check(Draft(**common, prices=prices))
