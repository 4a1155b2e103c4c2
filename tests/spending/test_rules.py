"""What spending rules say of a payload."""

from typing import Any

import pytest

from spending.rules import Limit, Payload, Verdict, amounts, limits, validate_rules, verdicts
from tests.spending.payloads import (
    ALICE,
    APPROVE,
    BOB,
    MALLORY,
    OTHER_TOKEN,
    TOKEN,
    TRANSFER,
    TRANSFER_FROM,
    call,
    payload,
)

MAX = 2**256 - 1
RECEIVERS = {"receivers": [{"address": ALICE}, {"address": BOB, "selectors": ["0x12345678"]}]}
PAYABLE = {"receivers": [{"address": ALICE, "selectors": ["0x"]}]}
RECIPIENTS = {"tokens": [{"contract": TOKEN, "recipients": [ALICE]}]}
AMOUNT = {"tokens": [{"contract": TOKEN, "max_amount": 5}]}
TOKENS_ONLY = {"receivers": [], **AMOUNT}
TRANSFERS_ONLY = {"receivers": [{"address": TOKEN, "selectors": [f"0x{TRANSFER}"]}], **AMOUNT}
TYPICAL_CALL = call("12345678", MALLORY, 5)


def refused(rules: dict[str, Any], asked: Payload) -> list[str]:
    return [verdict.rule for verdict in verdicts(validate_rules(rules), asked) if not verdict.allowed]


@pytest.mark.parametrize(
    ("rules", "asked", "expected"),
    [
        ({}, payload(None, MAX, b"\0"), []),
        ({"max_value": 5}, payload(value=5), []),
        ({"max_value": 5}, payload(value=6), ["max_value"]),
        ({"max_value": 0}, payload(value=1), ["max_value"]),
        # The own account, which may delegate to a contract.
        ({"max_value": 5}, Payload(ALICE, 0, TYPICAL_CALL, sender=ALICE.lower()), ["own_account"]),
        (AMOUNT, Payload(ALICE.lower(), 0, b"\1", sender=ALICE), ["own_account"]),
        (RECEIVERS, Payload(ALICE, 0, TYPICAL_CALL, sender=ALICE), []),
        ({"max_value": 5}, Payload(ALICE, 0, b"", sender=ALICE), []),
        ({"max_value": 5}, Payload(ALICE, 0, TYPICAL_CALL, sender=BOB), []),
        ({}, Payload(ALICE, 0, TYPICAL_CALL, sender=ALICE), []),
        # Receivers and selectors.
        (RECEIVERS, payload(ALICE), []),
        (RECEIVERS, payload(ALICE.lower(), 9, b"\1"), []),
        (RECEIVERS, payload(MALLORY), ["receivers"]),
        (RECEIVERS, payload(TOKEN, data=call(TRANSFER, ALICE, 1)), ["receivers"]),
        (RECEIVERS, payload(None, data=b"\x60"), ["receivers"]),
        ({"receivers": []}, payload(ALICE), ["receivers"]),
        (RECEIVERS, payload(BOB, data=TYPICAL_CALL), []),
        (RECEIVERS, payload(BOB, data=bytes.fromhex("12345679")), ["receivers.selectors"]),
        (RECEIVERS, payload(BOB, data=bytes.fromhex("123456")), ["receivers.selectors"]),
        (RECEIVERS, payload(BOB), ["receivers.selectors"]),
        (RECEIVERS, payload(BOB.lower()), ["receivers.selectors"]),
        (PAYABLE, payload(ALICE, 5), []),
        (PAYABLE, payload(ALICE, 5, b"\0"), ["receivers.selectors"]),
        # Tokens: recipients and spenders.
        (RECIPIENTS, payload(TOKEN, data=call(TRANSFER, ALICE, MAX)), []),
        (RECIPIENTS, payload(TOKEN.lower(), data=call(TRANSFER, BOB, 0)), ["tokens.recipients"]),
        (RECIPIENTS, payload(TOKEN, data=call(APPROVE, ALICE, MAX)), []),
        (RECIPIENTS, payload(TOKEN, data=call(APPROVE, BOB, 0)), ["tokens.recipients"]),
        (RECIPIENTS, payload(TOKEN, data=call(TRANSFER_FROM, BOB, ALICE, 1)), []),
        (RECIPIENTS, payload(TOKEN, data=call(TRANSFER_FROM, ALICE, BOB, 1)), ["tokens.recipients"]),
        # Tokens: amounts.
        (AMOUNT, payload(TOKEN, data=call(TRANSFER, MALLORY, 5)), []),
        (AMOUNT, payload(TOKEN, data=call(TRANSFER, MALLORY, 6)), ["tokens.max_amount"]),
        (AMOUNT, payload(TOKEN, data=call(APPROVE, MALLORY, MAX)), ["tokens.max_amount"]),
        (AMOUNT, payload(TOKEN, data=call(TRANSFER_FROM, BOB, MALLORY, 6)), ["tokens.max_amount"]),
        # Tokens: everything else on their contract.
        (AMOUNT, payload(TOKEN), ["tokens.calls"]),
        (AMOUNT, payload(TOKEN, 1), ["tokens.calls", "tokens.value"]),
        (AMOUNT, payload(TOKEN, 1, call(TRANSFER, ALICE, 5)), ["tokens.value"]),
        (AMOUNT, payload(TOKEN, data=call(TRANSFER, ALICE, 1) + b"\0"), ["tokens.calls"]),
        (AMOUNT, payload(TOKEN, data=call("39509351", ALICE, 1)), ["tokens.calls"]),  # increaseAllowance
        (AMOUNT, payload(TOKEN, data=call("d505accf", ALICE, BOB, 1, 1, 27, 1, 1)), ["tokens.calls"]),  # permit
        # Tokens and other receivers.
        (AMOUNT, payload(OTHER_TOKEN, 7, call(TRANSFER, MALLORY, 6)), []),
        (AMOUNT, payload(None, data=b"\x60"), ["tokens"]),
        (TOKENS_ONLY, payload(TOKEN, data=call(TRANSFER, MALLORY, 5)), []),
        (TOKENS_ONLY, payload(TOKEN, data=call(TRANSFER, MALLORY, 6)), ["tokens.max_amount"]),
        (TOKENS_ONLY, payload(OTHER_TOKEN, data=call(TRANSFER, MALLORY, 5)), ["receivers"]),
        (TOKENS_ONLY, payload(None), ["receivers", "tokens"]),
        (TRANSFERS_ONLY, payload(TOKEN, data=call(TRANSFER, MALLORY, 5)), []),
        (TRANSFERS_ONLY, payload(TOKEN, data=call(APPROVE, MALLORY, 5)), ["receivers.selectors"]),
        (TRANSFERS_ONLY, payload(TOKEN, data=call(TRANSFER, MALLORY, 6)), ["tokens.max_amount"]),
    ],
)
def test_refusals(rules: dict[str, Any], asked: Payload, expected: list[str]) -> None:
    assert refused(rules, asked) == expected


def test_a_verdict_says_what_was_asked_and_what_is_allowed() -> None:
    rules = validate_rules(
        {
            "max_value": 5,
            "receivers": [{"address": ALICE}, {"address": TOKEN, "selectors": [f"0x{TRANSFER}", "0x"]}],
            "tokens": [
                {"contract": TOKEN, "recipients": [ALICE], "max_amount": 5},
                {"contract": OTHER_TOKEN, "max_amount": 0},
            ],
        }
    )
    assert verdicts(rules, payload(TOKEN, 6, call(APPROVE, BOB, 7))) == [
        Verdict("max_value", False, "Value 6 wei; the maximum of a transaction is 5 wei."),
        Verdict("receivers", True, f"Receiver {TOKEN}; allowed: {ALICE}, {TOKEN}, {OTHER_TOKEN}."),
        Verdict(
            "receivers.selectors",
            False,
            f"Call of 0x095ea7b3 with 68 bytes to {TOKEN}; allowed: 0xa9059cbb, no data.",
        ),
        Verdict(
            "tokens.calls",
            True,
            f"Call of approve to the token {TOKEN}; allowed: transfer, approve, transferFrom, in the canonical "
            "ABI encoding.",
        ),
        Verdict("tokens.value", False, f"Value 6 wei to the token {TOKEN}; allowed: 0 wei."),
        Verdict("tokens.recipients", False, f"Recipient or spender {BOB} of the token {TOKEN}; allowed: {ALICE}."),
        Verdict("tokens.max_amount", False, f"Amount 7 of the token {TOKEN}; the maximum of a transaction is 5."),
    ]


def test_a_text_names_few_of_many() -> None:
    receivers = [{"address": f"0x{number:040x}"} for number in range(1, 6)]
    [verdict] = verdicts(validate_rules({"receivers": receivers}), payload(None))
    assert verdict.text.endswith(
        "000001, 0x0000000000000000000000000000000000000002, 0x0000000000000000000000000000000000000003 and 2 more."
    )


def test_limits_are_those_per_day() -> None:
    rules = {
        "max_value": 1,
        "max_value_per_day": 2,
        "max_gas_cost_per_day": 0,
        "tokens": [
            {"contract": TOKEN.lower(), "max_amount_per_day": 4},
            {"contract": OTHER_TOKEN, "max_amount": 5},
        ],
    }
    assert limits(validate_rules(rules)) == [Limit("value", 2), Limit("gas", 0), Limit(f"token:{TOKEN}", 4)]
    assert limits({}) == []


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (payload(ALICE, 5), {"value": 5}),
        (payload(None, 5, call(TRANSFER, ALICE, 7)), {"value": 5}),
        (payload(ALICE, 0), {}),
        (payload(TOKEN.lower(), 0, call(TRANSFER, ALICE, 7)), {f"token:{TOKEN}": 7}),
        (payload(TOKEN, 1, call(TRANSFER_FROM, BOB, ALICE, 7)), {"value": 1, f"token:{TOKEN}": 7}),
        (payload(TOKEN, 0, call(APPROVE, ALICE, MAX)), {f"token:{TOKEN}": MAX}),
        (payload(TOKEN, 0, call(TRANSFER, ALICE, 0)), {}),
        (payload(TOKEN, 0, call(TRANSFER, ALICE, 7) + b"\0"), {}),
    ],
)
def test_what_counts_against_limits(asked: Payload, expected: dict[str, int]) -> None:
    assert amounts(asked) == expected
