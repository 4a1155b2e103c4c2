"""The policies of an EVM relayer: six fields, literal types, exact amounts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rest_framework.exceptions import ValidationError

from relayers.policies import validate_policies

RECEIVER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
BOOLEANS = ["eip1559_pricing", "gas_limit_estimation", "private_transactions"]
AMOUNTS = ["gas_price_cap", "min_balance"]
LARGEST = 2**128 - 1

NO_OBJECT = "an object is required"
NO_BOOLEAN = "true or false is required"
NO_AMOUNT = "a whole number from 0 to 340282366920938463463374607431768211455 is required"
NO_ADDRESS = "must be an EVM address: 0x and 40 hexadecimal digits"
BAD_CHECKSUM = "invalid checksum: a character of this address is mistyped"
NULL = "null is not allowed here"


def faults(policies: Any) -> Any:
    """Return the faults of policies."""
    try:
        validate_policies("evm", policies)
    except ValidationError as error:
        return error.detail
    return {}


def test_all_six_are_kept_as_they_are() -> None:
    policies = {
        "eip1559_pricing": True,
        "gas_limit_estimation": False,
        "gas_price_cap": LARGEST,
        "min_balance": 0,
        "private_transactions": False,
        "whitelist_receivers": [RECEIVER],
    }
    assert validate_policies("evm", policies) == policies


@pytest.mark.parametrize(
    "policies",
    [{}, *({name: True} for name in BOOLEANS), *({name: 1} for name in AMOUNTS), {"whitelist_receivers": []}],
)
def test_each_may_stand_alone_or_be_left_out(policies: dict[str, Any]) -> None:
    assert validate_policies("evm", policies) == policies


@pytest.mark.parametrize("value", [None, [], "{}", 1, True])
def test_what_is_no_object_is_refused(value: Any) -> None:
    assert faults(value) == {"non_field_errors": [NO_OBJECT]}


@pytest.mark.parametrize("name", ["gas_limit", "Min_balance", "min_balance ", ""])
def test_a_field_that_there_is_not_is_refused(name: str) -> None:
    assert faults({name: 1}) == {name: ["unknown field"]}


@pytest.mark.parametrize("name", BOOLEANS)
@pytest.mark.parametrize("value", [0, 1, 1.0, "true", "", [], {}])
def test_a_boolean_is_literal(name: str, value: Any) -> None:
    assert faults({name: value}) == {name: [NO_BOOLEAN]}


@pytest.mark.parametrize("name", AMOUNTS)
@pytest.mark.parametrize("value", [True, False, 1.0, 1.5, 1e30, "1", "0x1", "", [], {}, [1]])
def test_an_amount_is_a_literal_integer(name: str, value: Any) -> None:
    assert faults({name: value}) == {name: [NO_AMOUNT]}


@pytest.mark.parametrize("name", AMOUNTS)
@pytest.mark.parametrize("value", [-1, -LARGEST, LARGEST + 1, 10**400])
def test_an_amount_out_of_bounds_is_refused(name: str, value: int) -> None:
    assert faults({name: value}) == {name: [NO_AMOUNT]}


@given(st.integers(min_value=0, max_value=LARGEST))
def test_every_amount_within_bounds_is_exact(amount: int) -> None:
    assert validate_policies("evm", {"gas_price_cap": amount}) == {"gas_price_cap": amount}


@pytest.mark.parametrize("name", [*BOOLEANS, *AMOUNTS])
def test_null_is_refused(name: str) -> None:
    assert faults({name: None}) == {name: [NULL]}


@pytest.mark.parametrize("address", [RECEIVER, RECEIVER.lower(), "0x" + RECEIVER[2:].upper(), "0x" + "0" * 40])
def test_a_receiver_is_kept_to_the_byte(address: str) -> None:
    assert validate_policies("evm", {"whitelist_receivers": [address]}) == {"whitelist_receivers": [address]}


@pytest.mark.parametrize(
    ("address", "fault"),
    [
        ("0x70997970C51812dc3A010C7d01b50e0d17dc79C9", BAD_CHECKSUM),
        ("0x70997970c51812dc3A010C7d01b50e0d17dc79C8", BAD_CHECKSUM),
        ("0X70997970C51812dc3A010C7d01b50e0d17dc79C8", NO_ADDRESS),
        (RECEIVER[2:], NO_ADDRESS),
        (RECEIVER[:-1], NO_ADDRESS),
        (RECEIVER + "0", NO_ADDRESS),
        (RECEIVER + "\n", NO_ADDRESS),
        (" " + RECEIVER, NO_ADDRESS),
        ("0x" + "g" * 40, NO_ADDRESS),
        ("0x" + "\uff10" * 40, NO_ADDRESS),
        ("vitalik.eth", NO_ADDRESS),
        ("", "an empty string is not allowed here"),
        (None, NULL),
        (1, "a string is required"),
        (["0x"], "a string is required"),
    ],
)
def test_what_is_no_address_is_refused_with_its_place(address: Any, fault: str) -> None:
    assert faults({"whitelist_receivers": [RECEIVER, address]}) == {"whitelist_receivers": {1: [fault]}}


@pytest.mark.parametrize("value", [None, RECEIVER, 1, True, {}, {"0": RECEIVER}])
def test_receivers_are_a_list(value: Any) -> None:
    assert list(faults({"whitelist_receivers": value})) == ["whitelist_receivers"]


def test_a_thousand_receivers_are_the_most() -> None:
    assert faults({"whitelist_receivers": [RECEIVER] * 1000}) == {}
    assert list(faults({"whitelist_receivers": [RECEIVER] * 1001})) == ["whitelist_receivers"]


def test_each_fault_is_reported() -> None:
    policies = {"x": 1, "min_balance": -1, "eip1559_pricing": "yes", "gas_price_cap": 1}
    assert faults(policies) == {
        "x": ["unknown field"],
        "min_balance": [NO_AMOUNT],
        "eip1559_pricing": [NO_BOOLEAN],
    }
