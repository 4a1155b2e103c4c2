"""What OP-stack networks are asked with, how near that is to what their nodes charge, and their operator fee."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from eth_abi.abi import decode as abi_decode
from eth_abi.abi import encode
from hypothesis import given
from hypothesis import strategies as st

from chain.errors import InsufficientData
from chain.fees.network_fees import KINDS, OperatorFee, read_operator_fee
from chain.networks import NetworkKind
from chain.nodes.answers import ChainError
from chain.transactions import decode
from tests.chain.hardhat import EMPTY_BLOB_HASH, GAS_PRICE_ORACLE, Chain
from tests.chain.independent import KINDS as TYPES
from tests.chain.independent import Transaction, authorization, filled
from tests.chain.rollup_fees import op_stack_charge, op_stack_l1_fee
from tests.rpc.factories import AUTHORITY, KEYS

REVERTED = ChainError(3, "execution reverted", "0x")
HARDHAT_REVERTED = ChainError(-32603, "Error: Transaction reverted without a reason string", {"data": "0x"})
GARBAGE: list[Any] = [None, 5, [], {}, "0x", "0xzz", "0x01", "0x" + "00" * 31, ChainError(-32000, "no state")]

TO = bytes.fromhex("3e6f4f7866654c18f536170780344aa8772950b6")
BLANK: dict[str, Any] = {"nonce": 0, "gas": 0, "gas_price": 0, "tip": 0}
SET = {"nonce": 5, "gas": 321_987, "gas_price": 3 * 10**9, "tip": 10**6}
# What a type has beside the others.
OWN: dict[str, dict[str, Any]] = {
    "2930": {"access_list": ((TO, (bytes(32),)),)},
    "4844": {"blob_hashes": (bytes.fromhex(EMPTY_BLOB_HASH[2:]),)},
    "7702": {"authorizations": (authorization(AUTHORITY, 10, TO, 0),)},
}
# Of OP Mainnet's block 124665056.
PRICES = (1_055_991_687, 1, 5_227, 1_014_213)


def made(kind: str, **fields: Any) -> Transaction:
    return Transaction(**{"to": TO, "value": 10**15, "data": b"\1\0\2", **TYPES[kind], **OWN.get(kind, {}), **fields})


def asked(transaction: bytes, kind: NetworkKind = NetworkKind.OP_STACK) -> bytes:
    """Return the bytes that the oracle is asked with."""
    (call,) = KINDS[kind].charge_readings(decode(f"0x{transaction.hex()}"))["l1_fee"].calls
    (data,) = abi_decode(["bytes"], bytes.fromhex(call.params[0]["data"][10:]))
    return bytes(data)


@pytest.mark.parametrize("kind", TYPES)
def test_blank_fields_are_asked_for_with_placeholders(kind: str) -> None:
    transaction = made(kind, **BLANK)
    expected = replace(transaction, nonce=0x2D9B, gas=0x03F27C, gas_price=0x51B86E17, tip=0x0F93A6)
    assert asked(transaction.unsigned()) == expected.unsigned()


@pytest.mark.parametrize("blank", [{}, {"nonce": 0}, {"gas": 0}, {"gas_price": 0}, {"tip": 0}])
def test_only_a_blank_field_has_a_placeholder_and_a_value_none(blank: dict[str, int]) -> None:
    transaction = made("1559", **SET | {"value": 0} | blank)
    assert asked(transaction.unsigned()) == filled(transaction).unsigned()


@pytest.mark.parametrize("kind", TYPES)
def test_a_signed_transaction_is_asked_for_as_it_was_before_it_was_signed(kind: str) -> None:
    for fields in (SET, BLANK | {"gas": 21_000}):
        transaction = made(kind, **fields)
        assert asked(transaction.signed(KEYS[0])) == transaction.unsigned()


def random_transactions(count: int = 200) -> list[Transaction]:
    """Return transactions as they are sent: transfers, calls with words as arguments, creations."""
    chance, found = random.Random(8453), []
    for number in range(count):
        words = [chance.randbytes(chance.choice([1, 4, 8, 20, 32])).rjust(32, b"\0") for _ in range(8)]
        arguments = b"".join(chance.choice(words) for _ in range(chance.randint(0, 18)))
        # Code repeats itself, but less than arguments do.
        pieces = [chance.randbytes(chance.randint(2, 12)) for _ in range(60)]
        code = b"".join(chance.choice(pieces) for _ in range(chance.randint(100, 400)))
        to, data = [(TO, b""), (TO, chance.randbytes(4) + arguments), (TO, arguments), (b"", code)][number % 4]
        tip = chance.choice([0, chance.randint(1, 10**7)])
        found.append(
            Transaction(
                type=chance.choice([0, 2, 2]),
                chain_id=chance.choice([10, 8453, 34443, 7777777]),
                nonce=chance.randint(0, 10**5),
                gas=chance.randint(21_000, 3_000_000),
                gas_price=chance.randint(10**7, 5 * 10**9),
                tip=tip,
                to=to,
                value=chance.choice([0, chance.randint(1, 10**19)]),
                data=data,
            )
        )
    return found


def errors_in_percent(asked_with: Callable[[Transaction], bytes]) -> list[Fraction]:
    """Return how far what the oracle says is from what nodes charge for the signed transaction."""
    found = []
    for transaction in random_transactions():
        told = op_stack_l1_fee(asked_with(transaction), *PRICES)
        charge = op_stack_charge(transaction.signed(KEYS[0]), *PRICES)
        found.append(Fraction(100 * (told - charge), charge))
    return found


def blank(transaction: Transaction) -> Transaction:
    return replace(transaction, **BLANK)


# What is asked with: as callers send it, as the service asks for that, and for a signed one.
WAYS: dict[str, Callable[[Transaction], bytes]] = {
    "blank": lambda transaction: blank(transaction).unsigned(),
    "filled": lambda transaction: asked(blank(transaction).unsigned()),
    "signed": lambda transaction: asked(transaction.signed(KEYS[0])),
}


def test_filled_fields_are_within_a_percent_of_what_nodes_charge() -> None:
    found = {way: errors_in_percent(asked_with) for way, asked_with in WAYS.items()}
    medians = {way: statistics.median(errors) for way, errors in found.items()}
    assert medians["blank"] < -Fraction(1, 2)
    assert abs(medians["filled"]) < 1
    assert abs(medians["signed"]) < 1


def test_what_nodes_charge_is_never_above_the_maximum() -> None:
    """With the default margin of a tenth, and with prices of L1 that have not moved."""
    for way in ("filled", "signed"):
        assert all(110 * (100 + error) >= 100 * 100 for error in errors_in_percent(WAYS[way]))


def word(number: int) -> str:
    return "0x" + encode(["uint256"], [number]).hex()


@given(scalar=st.integers(0, 2**32 - 1), constant=st.integers(0, 2**64 - 1), gas=st.integers(0, 2**64 - 1))
def test_the_operator_fee_is_that_of_isthmus_and_of_jovian_for_any_gas(scalar: int, constant: int, gas: int) -> None:
    def isthmus(used: int) -> int:
        return used * scalar // 10**6 + constant

    def jovian(used: int) -> int:
        return used * scalar * 100 + constant

    for fee in (isthmus, jovian):
        assert read_operator_fee([word(fee(0)), word(fee(10**6))]).for_gas(gas) == fee(gas)


@pytest.mark.parametrize("contract", ["IsthmusGasPriceOracle", "JovianGasPriceOracle"])
def test_the_operator_fee_is_what_a_real_oracle_says(chain: Chain, contract: str) -> None:
    chain.set_code(GAS_PRICE_ORACLE, contract)
    chain.send(GAS_PRICE_ORACLE, "setOperatorFee(uint256,uint256)", 4_321_987, 1_234)
    reading = KINDS[NetworkKind.OP_STACK].charge_readings(decode(f"0x{made('1559').unsigned().hex()}"))["operator_fee"]
    fee = reading.read([chain.rpc(call.method, *call.params) for call in reading.calls])
    for gas in (0, 1, 2, 999, 21_000, 999_999, 10**6, 10**6 + 1, 123_456_789, 2**40):
        assert fee.for_gas(gas) == chain.call(GAS_PRICE_ORACLE, "getOperatorFee(uint256)(uint256)", gas)


@pytest.mark.parametrize("refusal", [REVERTED, HARDHAT_REVERTED])
def test_an_oracle_without_the_function_is_of_before_there_was_the_fee(refusal: ChainError) -> None:
    assert read_operator_fee([refusal, refusal]) == OperatorFee(0, 0)


@pytest.mark.parametrize(
    ("at_zero", "at_much"),
    [(REVERTED, word(5)), (word(5), REVERTED), *((word(5), one) for one in GARBAGE)],
)
def test_a_partial_operator_fee_is_not_guessed(at_zero: Any, at_much: Any) -> None:
    with pytest.raises(InsufficientData, match=r"^The network did not report its operator fee.$"):
        read_operator_fee([at_zero, at_much])


def test_an_operator_fee_that_falls_with_the_gas_is_refused() -> None:
    with pytest.raises(
        InsufficientData, match=r"^The network's operator fee decreases with gas, which is impossible.$"
    ):
        read_operator_fee([word(5), word(4)])


@pytest.mark.parametrize("answer", [*GARBAGE, REVERTED])
def test_a_missing_l1_fee_is_not_guessed(answer: Any) -> None:
    reading = KINDS[NetworkKind.SCROLL].charge_readings(decode(f"0x{made('1559').unsigned().hex()}"))["l1_fee"]
    assert reading.read([word(2**256 - 1)]) == 2**256 - 1
    with pytest.raises(InsufficientData, match=r"^The network did not report its L1 data fee.$"):
        reading.read([answer])
