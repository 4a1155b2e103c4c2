"""The shape of spending rules: what is stored, and the fault of everything else."""

import json
import re
from typing import Any

import pytest
from rest_framework.exceptions import ValidationError

from spending.rules import validate_rules
from spending.shape import MAX_ENTRIES, MAX_RECEIVERS, MAX_RECIPIENTS, MAX_SELECTORS, MAX_TOKENS
from tests.servers import PROJECT
from tests.spending.payloads import ALICE, BOB, OTHER_TOKEN, TOKEN

AMOUNT = ["a whole number from 0 to 2^256 - 1 is required"]
SELECTOR = ["must be a function selector, 0x and 8 hexadecimal digits, or 0x for a transfer without data"]
DUPLICATE = ["given more than once"]


def address(number: int) -> str:
    return f"0x{number:040x}"


def test_rules_are_stored_with_decimal_strings_checksums_and_lower_case_selectors() -> None:
    given = {
        "max_value": 10**30,
        "max_value_per_day": "007",
        "max_gas_cost_per_day": 0,
        "receivers": [{"address": ALICE.lower(), "selectors": ["0xA9059CBB", "0x"]}, {"address": BOB}],
        "tokens": [{"contract": TOKEN.lower(), "recipients": [BOB.lower()], "max_amount": 5, "max_amount_per_day": 9}],
    }
    assert validate_rules(given) == {
        "max_value": "1000000000000000000000000000000",
        "max_value_per_day": "7",
        "max_gas_cost_per_day": "0",
        "receivers": [{"address": ALICE, "selectors": ["0xa9059cbb", "0x"]}, {"address": BOB}],
        "tokens": [{"contract": TOKEN, "recipients": [BOB], "max_amount": "5", "max_amount_per_day": "9"}],
    }


def test_stored_rules_are_valid_and_unchanged() -> None:
    # An empty list of receivers is a rule, and one of tokens is not.
    assert validate_rules({"receivers": [], "tokens": []}) == {"receivers": []}
    for stored in (
        validate_rules({"max_value": 5, "receivers": [], "tokens": [{"contract": TOKEN, "recipients": [BOB]}]}),
        {
            "receivers": [{"address": TOKEN, "selectors": ["0xa9059cbb"]}],
            "tokens": [{"contract": TOKEN, "max_amount": "1"}, {"contract": OTHER_TOKEN, "max_amount": "0"}],
        },
    ):
        assert validate_rules(stored) == stored


@pytest.mark.parametrize(
    ("rules", "faults"),
    [
        (None, {"non_field_errors": ["an object is required"]}),
        ([], {"non_field_errors": ["an object is required"]}),
        ({"max_valeu": 1}, {"max_valeu": ["unknown field"]}),
        *(({"max_value": value}, {"max_value": AMOUNT}) for value in (-1, True, 1.0, "1e3", "٣", 2**256, "9" * 5000)),
        ({"max_value": None}, {"max_value": ["null is not allowed here"]}),
        ({"receivers": {}}, {"receivers": ["a list is required"]}),
        ({"receivers": [ALICE]}, {"receivers": {0: {"non_field_errors": ["an object is required"]}}}),
        ({"receivers": [{}]}, {"receivers": {0: {"address": ["this field is required"]}}}),
        (
            {"receivers": [{"address": ALICE.replace("C8", "c8")}]},
            {"receivers": {0: {"address": ["invalid checksum: a character of this address is mistyped"]}}},
        ),
        (
            {"receivers": [{"address": ALICE}, {"address": ALICE[2:]}]},
            {"receivers": {1: {"address": ["must be an EVM address: 0x and 40 hexadecimal digits"]}}},
        ),
        (
            {"receivers": [{"address": ALICE}, {"address": ALICE.lower()}]},
            {"receivers": {1: {"address": DUPLICATE}}},
        ),
        ({"receivers": [{"address": ALICE, "to": 1}]}, {"receivers": {0: {"to": ["unknown field"]}}}),
        (
            {"receivers": [{"address": ALICE, "selectors": []}]},
            {"receivers": {0: {"selectors": ["must not be empty: omit it to allow every call"]}}},
        ),
        (
            {"receivers": [{"address": ALICE, "selectors": ["0xa9059cbb", "0xA9059CBB"]}]},
            {"receivers": {0: {"selectors": {1: DUPLICATE}}}},
        ),
        *(
            (
                {"receivers": [{"address": ALICE, "selectors": ["0xa9059cbb", text]}]},
                {"receivers": {0: {"selectors": {1: SELECTOR}}}},
            )
            for text in ("a9059cbb", "0xa9059c", "0xa9059cbb00", "0xa9059cbg", "transfer", "0xa9059cbb\n")
        ),
        ({"tokens": [{"max_amount": 1}]}, {"tokens": {0: {"contract": ["this field is required"]}}}),
        (
            {"tokens": [{"contract": TOKEN}]},
            {"tokens": {0: {"contract": ["recipients, max_amount or max_amount_per_day is required with it"]}}},
        ),
        (
            {"tokens": [{"contract": TOKEN, "max_amount": 1}, {"contract": TOKEN.lower(), "max_amount": 2}]},
            {"tokens": {1: {"contract": DUPLICATE}}},
        ),
        (
            {"tokens": [{"contract": TOKEN, "recipients": [ALICE, BOB, ALICE.lower()]}]},
            {"tokens": {0: {"recipients": {2: DUPLICATE}}}},
        ),
        (
            {"tokens": [{"contract": TOKEN, "recipients": []}]},
            {"tokens": {0: {"recipients": ["must not be empty: omit it to allow any, or set max_amount to 0"]}}},
        ),
        ({"tokens": [{"contract": TOKEN, "max_amount": "-1"}]}, {"tokens": {0: {"max_amount": AMOUNT}}}),
    ],
)
def test_a_fault_has_its_path(rules: Any, faults: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        validate_rules(rules)
    assert caught.value.detail == faults


@pytest.mark.parametrize(
    "rules",
    [
        {"receivers": [{"address": address(number)} for number in range(MAX_RECEIVERS + 1)]},
        {"receivers": [{"address": ALICE, "selectors": [f"0x{number:08x}" for number in range(MAX_SELECTORS + 1)]}]},
        {"tokens": [{"contract": address(number), "max_amount": 1} for number in range(MAX_TOKENS + 1)]},
        {"tokens": [{"contract": TOKEN, "recipients": [address(number) for number in range(MAX_RECIPIENTS + 1)]}]},
        {
            "tokens": [
                {"contract": address(token), "recipients": [address(number) for number in range(MAX_RECIPIENTS)]}
                for token in range(MAX_ENTRIES // MAX_RECIPIENTS)
            ]
        },
    ],
)
def test_sizes_are_bounded(rules: Any) -> None:
    with pytest.raises(ValidationError, match=r"at most [0-9]+ (entries|addresses and selectors)"):
        validate_rules(rules)


def test_the_examples_of_the_documentation_are_rules() -> None:
    text = (PROJECT / "docs/spending-rules.md").read_text()
    blocks = re.findall(r"(?:^    .*\n)+", text, re.M)
    assert len(blocks) == 3
    assert [json.loads(block) for block in blocks] == [validate_rules(json.loads(block)) for block in blocks]
