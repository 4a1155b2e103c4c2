"""Fee tokens and price sources: what staff can save, and what the database itself refuses."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from relayer_service.amounts import parse_rate
from rpc.models import FeeToken, PriceSource
from tests.rpc.factories import FEED, NATIVE_FEED, PAIR, TOKEN, WRAPPED, fee_token

ADDRESS = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"
NEEDED = ["required for this kind of source"]
NOT_A_RATE = "a decimal number is required, such as 0.0005 or 3000"
KINDS: dict[str, dict[str, Any]] = {
    "fixed": {"rate_text": "3000", "max_age_seconds": 60},
    "chainlink_usd": {
        "feed": FEED,
        "heartbeat_seconds": 60,
        "native_feed": NATIVE_FEED,
        "native_heartbeat_seconds": 60,
    },
    "chainlink_native": {"feed": FEED, "heartbeat_seconds": 60},
    "uniswap_v2": {"pair": PAIR, "wrapped_native": WRAPPED, "min_liquidity_text": "0"},
}


def faults(row: FeeToken | PriceSource) -> dict[str, list[str]]:
    """Return what is wrong with a row, by field."""
    try:
        row.full_clean()
    except ValidationError as error:
        return error.message_dict
    return {}


def token(**changes: Any) -> FeeToken:
    return FeeToken(**{"network": "hardhat", "symbol": "USDC", "address": ADDRESS, **changes})


@pytest.mark.django_db
@pytest.mark.parametrize("written", [ADDRESS.lower(), "0x" + ADDRESS[2:].upper()])
def test_an_address_is_kept_with_the_case_of_its_checksum(written: str) -> None:
    row = token(address=written)
    row.full_clean()
    row.save()
    assert FeeToken.objects.values_list("address", flat=True).get() == ADDRESS
    source = PriceSource(token=row, kind="chainlink_native", feed=written, heartbeat_seconds=1)
    source.full_clean()
    source.save()
    assert PriceSource.objects.values_list("feed", "native_feed").get() == (ADDRESS, "")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("", "This field cannot be blank."),
        ("USDC", "must be an EVM address: 0x and 40 hexadecimal digits"),
        (f"0X{ADDRESS[2:]}", "must be an EVM address: 0x and 40 hexadecimal digits"),
        (ADDRESS.replace("A0b8", "a0b8"), "invalid checksum: a character of this address is mistyped"),
    ],
)
def test_what_is_no_address_is_refused(address: str, message: str) -> None:
    assert faults(token(address=address)) == {"address": [message]}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {}),
        ({"symbol": "USD₮0"}, {}),
        ({"network": "nowhere"}, {"network": ["unknown network: add it to NETWORKS_FILE"]}),
        ({"symbol": "ETH"}, {"symbol": ["ETH is the native coin of hardhat"]}),
        ({"symbol": "ETH", "network": "polygon"}, {}),
        # So that no symbol can be taken for an address.
        ({"symbol": TOKEN}, {"symbol": ["Ensure this value has at most 32 characters (it has 42)."]}),
        ({"symbol": "US DC"}, {"symbol": ["spaces and control characters are not allowed"]}),
        ({"symbol": "\x7f"}, {"symbol": ["spaces and control characters are not allowed"]}),
        ({"margin_bps": 10_001}, {"margin_bps": ["Ensure this value is less than or equal to 10000."]}),
        ({"max_spread_bps": 10_001}, {"max_spread_bps": ["Ensure this value is less than or equal to 10000."]}),
    ],
)
def test_a_token_is_checked(changes: dict[str, Any], expected: dict[str, list[str]]) -> None:
    assert faults(token(**changes)) == expected


@pytest.mark.django_db
@pytest.mark.parametrize(("name", "changes"), [("Symbol", {"address": TOKEN}), ("Address", {"symbol": "USDT"})])
def test_a_symbol_and_an_address_stand_once_on_a_network(name: str, changes: dict[str, Any]) -> None:
    fee_token(address=ADDRESS)
    assert faults(token(**changes)) == {"__all__": [f"Fee token with this Network and {name} already exists."]}
    assert faults(token(network="sepolia")) == {}
    with pytest.raises(IntegrityError), transaction.atomic():
        token(**changes).save()
    fee_token(address=ADDRESS, network="sepolia")
    fee_token(address=TOKEN, symbol="usdc")
    assert FeeToken.objects.count() == 3


@pytest.mark.django_db
@pytest.mark.parametrize("kind", KINDS)
def test_a_source_needs_what_its_kind_is_made_of(kind: str) -> None:
    row = fee_token()
    assert faults(PriceSource(token=row, kind=kind, **KINDS[kind])) == {}
    assert faults(PriceSource(token=row, kind=kind)) == dict.fromkeys(KINDS[kind], NEEDED)
    for name in KINDS[kind]:
        some = {other: value for other, value in KINDS[kind].items() if other != name}
        assert faults(PriceSource(token=row, kind=kind, **some)) == {name: NEEDED}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("kind", "changes", "expected"),
    [
        ("oracle", {}, {"kind": ["Value 'oracle' is not a valid choice."]}),
        ("fixed", {"rate_text": "0"}, {"rate_text": ["the rate must be above zero"]}),
        *(
            (kind, {name: 0}, {name: ["Ensure this value is greater than or equal to 1."]})
            for kind, name in (
                ("fixed", "max_age_seconds"),
                ("chainlink_native", "heartbeat_seconds"),
                ("chainlink_usd", "native_heartbeat_seconds"),
            )
        ),
        (
            "chainlink_native",
            {"sequencer_feed": "0x1"},
            {"sequencer_feed": ["must be an EVM address: 0x and 40 hexadecimal digits"]},
        ),
        *(
            (
                "uniswap_v2",
                {"min_liquidity_text": text},
                {"min_liquidity_text": [f"a whole number from 0 to {2**128 - 1} is required"]},
            )
            for text in ("-1", "1\n", "٣", str(2**128))
        ),
    ],
)
def test_a_source_is_checked(kind: str, changes: dict[str, Any], expected: dict[str, list[str]]) -> None:
    assert faults(PriceSource(token=fee_token(), kind=kind, **KINDS.get(kind, {}) | changes)) == expected


def test_the_fields_of_a_kind_are_those_it_needs_and_those_it_may_have() -> None:
    assert PriceSource.fields_of("fixed") == ["rate_text", "max_age_seconds"]
    assert PriceSource.fields_of("chainlink_native") == [
        "feed",
        "heartbeat_seconds",
        "sequencer_feed",
        "sequencer_grace_seconds",
    ]


@pytest.mark.parametrize(
    "text",
    ["007.50", "0." + "0" * 59 + "1", "9" * 60 + "." + "9" * 60],
)
def test_a_rate_is_read_to_the_last_digit(text: str) -> None:
    whole, _, part = text.partition(".")
    assert parse_rate(text) == Decimal((0, tuple(map(int, whole + part)), -len(part)))


@pytest.mark.parametrize(
    "text", ["", " 1", "1\n", "-1", "1e3", "0x1", "1,5", "1_000", ".5", "5.", "nan", "٣", "9" * 61, "0." + "0" * 61]
)
def test_what_is_no_decimal_number_is_no_rate(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{NOT_A_RATE}$"):
        parse_rate(text)


@pytest.mark.parametrize("text", ["00", "0." + "0" * 60])
def test_a_rate_is_above_zero(text: str) -> None:
    with pytest.raises(ValueError, match=r"^the rate must be above zero$"):
        parse_rate(text)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("fixed", "max_age_seconds"),
        ("chainlink_native", "heartbeat_seconds"),
        ("chainlink_native", "sequencer_grace_seconds"),
    ],
)
def test_seconds_fit_their_column(kind: str, name: str) -> None:
    PriceSource(kind=kind, **KINDS[kind] | {name: 2**31 - 1}).full_clean(exclude=["token"])
    with pytest.raises(ValidationError) as refused:
        PriceSource(kind=kind, **KINDS[kind] | {name: 2**31}).full_clean(exclude=["token"])
    assert [*refused.value.message_dict] == [name]
