"""What spending rules say of typed data to sign."""

from typing import Any

import pytest

from spending.rules import Verdict, typed_data_verdicts, validate_rules
from tests.spending.payloads import ALICE, BOB, MALLORY, OTHER_TOKEN, TOKEN, permit

LISTED = {"receivers": [{"address": TOKEN}]}
LIMITED = {"tokens": [{"contract": TOKEN, "recipients": [ALICE], "max_amount": 5}]}
FIELDS = [{"name": "amount", "type": "uint256"}]
TEXT = {"name": "verifyingContract", "type": "string"}
TYPES: dict[str, Any] = permit()["types"]
ORDER = permit(types={"Order": FIELDS}, primaryType="Order", message={"amount": 1})


def refused(rules: dict[str, Any], typed_data: Any) -> list[str]:
    found = typed_data_verdicts(validate_rules(rules), typed_data)
    return [verdict.rule for verdict in found if not verdict.allowed]


def domain(**changes: Any) -> dict[str, Any]:
    return {**permit()["domain"], **changes}


def message(**changes: Any) -> dict[str, Any]:
    return {**permit()["message"], **changes}


def without(values: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}


@pytest.mark.parametrize(
    ("rules", "typed_data", "expected"),
    [
        ({}, None, []),
        ({}, permit(), []),
        # Any rule refuses hashes, and contracts that are not listed.
        ({"max_value": 5}, None, ["typed_data"]),
        (LISTED, None, ["typed_data"]),
        ({"max_gas_cost_per_day": 5}, permit(), ["typed_data"]),
        (LISTED, permit(), []),
        (LISTED, ORDER, []),
        (LISTED, permit(domain=domain(verifyingContract=TOKEN.lower())), []),
        (LISTED, permit(domain=domain(verifyingContract=OTHER_TOKEN)), ["typed_data"]),
        # A signature could do what selectors refuse.
        ({"receivers": [{"address": TOKEN, "selectors": ["0xa9059cbb"]}]}, permit(), ["typed_data"]),
        ({"receivers": [{"address": TOKEN, "selectors": ["0xa9059cbb"]}], **LIMITED}, permit(), ["typed_data"]),
        # A contract with rules for tokens takes permits within them.
        (LIMITED, permit(), []),
        (LIMITED | LISTED, permit(), []),
        (LIMITED, permit(message=message(value=5)), []),
        (LIMITED, permit(message=message(value="0x5")), []),
        (LIMITED, permit(types=without(TYPES, "EIP712Domain")), []),
        (LIMITED, permit(message=message(value="6")), ["tokens.max_amount"]),
        (LIMITED, permit(message=message(value="0x6")), ["tokens.max_amount"]),
        (LIMITED, permit(message=message(value=2**256 - 1)), ["tokens.max_amount"]),
        (LIMITED, permit(message=message(spender=MALLORY)), ["tokens.recipients"]),
        (LIMITED, ORDER, ["tokens.calls"]),
        (LIMITED | LISTED, ORDER, ["tokens.calls"]),
        ({"tokens": [{"contract": TOKEN, "max_amount_per_day": 9}]}, permit(), ["tokens.max_amount_per_day"]),
    ],
)
def test_refusals(rules: dict[str, Any], typed_data: Any, expected: list[str]) -> None:
    assert refused(rules, typed_data) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"domain": None},
        {"domain": without(domain(), "verifyingContract")},
        {"domain": without(domain(), "chainId")},
        {"domain": domain(verifyingContract=None)},
        {"domain": domain(verifyingContract=int(TOKEN, 16))},
        {"domain": domain(verifyingContract=TOKEN[2:])},
        {"domain": domain(verifyingContract=[TOKEN])},
        {"domain": domain(chainId=True)},
        {"domain": domain(chainId="31337 ")},
        {"domain": domain(other=1)},
        {"types": None},
        {"types": []},
        {"types": TYPES | {"EIP712Domain": [{"name": "name", "type": "string"}]}},
        {"types": TYPES | {"EIP712Domain": []}},
        {"types": TYPES | {"EIP712Domain": TYPES["EIP712Domain"][::-1]}},
        {"types": TYPES | {"EIP712Domain": [*TYPES["EIP712Domain"][:-1], TEXT]}},
        {"types": TYPES | {"address": FIELDS}},
        {"types": TYPES | {"uint256": FIELDS}},
        {"types": TYPES | {"address[]": FIELDS}},
        {"types": TYPES | {1: FIELDS}},
        {"primaryType": "EIP712Domain"},
        {"primaryType": None},
        {"primaryType": ["Permit"]},
    ],
)
def test_a_domain_that_the_hash_may_not_commit_to_is_refused(changes: dict[str, Any]) -> None:
    assert refused(LISTED, permit(**changes)) == ["typed_data"]


@pytest.mark.parametrize(
    "changes",
    [
        {"types": TYPES | {"Other": FIELDS}},
        {"types": TYPES | {"Permit": TYPES["Permit"][:-1]}},
        {"types": TYPES | {"Permit": TYPES["Permit"][::-1]}},
        {"types": TYPES | {"Permit": [*TYPES["Permit"], *FIELDS]}},
        {
            # As of DAI: whoever is allowed can spend everything.
            "types": {
                "Permit": [
                    {"name": "holder", "type": "address"},
                    {"name": "spender", "type": "address"},
                    {"name": "nonce", "type": "uint256"},
                    {"name": "expiry", "type": "uint256"},
                    {"name": "allowed", "type": "bool"},
                ]
            },
            "message": {"holder": BOB, "spender": ALICE, "nonce": 0, "expiry": 0, "allowed": True},
        },
        {"message": None},
        {"message": without(message(), "value")},
        {"message": message(amount=1)},
        {"message": message(spender=ALICE[2:])},
        {"message": message(spender=None)},
        {"message": message(value=-1)},
        {"message": message(value=2**256)},
        {"message": message(value="05")},
        {"message": message(value="5 ")},
        {"message": message(value=5.0)},
        {"message": message(value=True)},
        {"message": message(value=None)},
        {"primaryType": "Order", "types": {"Order": TYPES["Permit"]}},
    ],
)
def test_a_token_with_rules_takes_nothing_but_plain_permits(changes: dict[str, Any]) -> None:
    assert refused(LIMITED, permit(**changes)) == ["tokens.calls"]


def test_a_chain_id_can_be_hexadecimal() -> None:
    assert refused(LISTED, permit(domain=domain(chainId="0x7a69"))) == []


def test_a_verdict_says_what_was_asked_and_what_is_allowed() -> None:
    rules = validate_rules({"receivers": [{"address": BOB}], **LIMITED})
    assert typed_data_verdicts(rules, permit()) == [
        Verdict("typed_data", True, f"Typed data for {TOKEN}; allowed: {TOKEN}, {BOB}."),
        Verdict("tokens.calls", True, f"Typed data for the token {TOKEN}; allowed: an ERC-2612 permit."),
        Verdict("tokens.recipients", True, f"Recipient or spender {ALICE} of the token {TOKEN}; allowed: {ALICE}."),
        Verdict("tokens.max_amount", True, f"Amount 5 of the token {TOKEN}; the maximum of a transaction is 5."),
    ]
