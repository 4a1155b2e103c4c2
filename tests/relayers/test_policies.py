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
        validate_policies(policies)
    except ValidationError as error:
        return error.detail
    return {}


ACCEPTED: list[dict[str, Any]] = [
    {
        "eip1559_pricing": True,
        "gas_limit_estimation": False,
        "gas_price_cap": LARGEST,
        "min_balance": 0,
        "private_transactions": False,
        "whitelist_receivers": [RECEIVER, RECEIVER.lower(), "0x" + RECEIVER[2:].upper(), "0x" + "0" * 40],
    },
    {},
    *({name: True} for name in BOOLEANS),
    *({name: 1} for name in AMOUNTS),
    {"whitelist_receivers": []},
    {"whitelist_receivers": [RECEIVER] * 1000},
]


@pytest.mark.parametrize("policies", ACCEPTED)
def test_policies_are_kept_to_the_byte_and_each_may_be_left_out(policies: dict[str, Any]) -> None:
    assert validate_policies(policies) == policies


@given(st.integers(min_value=0, max_value=LARGEST))
def test_every_amount_within_bounds_is_exact(amount: int) -> None:
    assert validate_policies({"gas_price_cap": amount}) == {"gas_price_cap": amount}


@pytest.mark.parametrize("value", [None, [], "{}"])
def test_what_is_no_object_is_refused(value: Any) -> None:
    assert faults(value) == {"non_field_errors": [NO_OBJECT]}


@pytest.mark.parametrize("name", BOOLEANS)
def test_a_boolean_is_literal(name: str) -> None:
    values: list[Any] = [0, 1, 1.0, "true", "", [], {}]
    assert [faults({name: value}) for value in values] == [{name: [NO_BOOLEAN]}] * 7


@pytest.mark.parametrize("name", AMOUNTS)
def test_an_amount_is_a_literal_integer_within_bounds(name: str) -> None:
    values: list[Any] = [True, 1.0, 1.5, 1e30, "1", "0x1", "", [], {}, -1, LARGEST + 1, 10**400]
    assert [faults({name: value}) for value in values] == [{name: [NO_AMOUNT]}] * 12


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
        ("0x" + "g" * 40, NO_ADDRESS),
        ("0x" + "\uff10" * 40, NO_ADDRESS),
        ("", "an empty string is not allowed here"),
        (None, NULL),
        (1, "a string is required"),
    ],
)
def test_what_is_no_address_is_refused_with_its_place(address: Any, fault: str) -> None:
    assert faults({"whitelist_receivers": [RECEIVER, address]}) == {"whitelist_receivers": {1: [fault]}}


@pytest.mark.parametrize("value", [None, RECEIVER, {"0": RECEIVER}, [RECEIVER] * 1001])
def test_receivers_are_a_list_of_at_most_a_thousand(value: Any) -> None:
    assert list(faults({"whitelist_receivers": value})) == ["whitelist_receivers"]


def test_each_fault_is_reported() -> None:
    unknown = ["x", "Min_balance", "min_balance ", ""]
    nulls = ["gas_limit_estimation", "private_transactions"]
    policies = dict.fromkeys(unknown, 1) | dict.fromkeys(nulls) | {"min_balance": -1, "eip1559_pricing": "yes"}
    assert faults(policies | {"gas_price_cap": None}) == {
        **{name: ["unknown field"] for name in unknown},
        **{name: [NULL] for name in [*nulls, "gas_price_cap"]},
        "min_balance": [NO_AMOUNT],
        "eip1559_pricing": [NO_BOOLEAN],
    }
