"""The length that Scroll charges for: of the signed transaction, compressed if that makes it shorter."""

from __future__ import annotations

import json
import statistics
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from chain.fees.network_fees import compressed
from chain.networks import NetworkKind
from chain.transactions import decode, encode_with_placeholders
from tests.chain.independent import KINDS
from tests.chain.rollup_fees import scroll_length
from tests.chain.test_op_stack import BLANK, SET, asked, blank, made, random_transactions
from tests.rpc.factories import KEYS

PUBLISHED = json.loads((Path(__file__).parent / "scroll_transactions.json").read_text())["transactions"]


def sent(encoded: bytes) -> bytes:
    return encode_with_placeholders(decode(f"0x{encoded.hex()}"), with_signature=True)


@pytest.mark.parametrize("published", PUBLISHED, ids=lambda published: published["name"])
def test_published_transactions_have_the_length_that_the_network_charges_for(published: dict[str, Any]) -> None:
    """They are from scroll-tech/go-ethereum rollup/fees/rollup_fee_test.go, and the file says so too."""
    signed = bytes.fromhex(published["signed"])
    assert len(compressed(signed)) == scroll_length(signed) == published["charged_length"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_signature_is_counted_in_full(kind: str) -> None:
    transaction = made(kind, **SET)
    for encoded in (transaction.unsigned(), transaction.signed(KEYS[0])):
        assert len(sent(encoded)) == len(transaction.signed(KEYS[0]))
    # The zeros of a signed transaction are no blank fields.
    signed = made(kind, **BLANK | {"gas": 21_000}).signed(KEYS[0])
    assert len(sent(signed)) == len(signed)


def test_the_length_is_near_the_one_of_the_transaction_that_is_sent() -> None:
    """A length decides the whole fee, but for the penalty of long ones."""
    errors = []
    for transaction in random_transactions():
        length = scroll_length(transaction.signed(KEYS[0]))
        errors.append(Fraction(100 * (len(asked(blank(transaction).unsigned(), NetworkKind.SCROLL)) - length), length))
    assert abs(statistics.median(errors)) < 1
    # Within the default margin of a tenth.
    assert all(110 * (100 + error) >= 100 * 100 for error in errors)
