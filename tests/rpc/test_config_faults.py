"""What `load_config` refuses of fee tokens: every fault with its path, and nothing changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from rpc.models import PriceSource
from tests.relayers.config_files import faults, load
from tests.rpc.config_tokens import (
    CHAINLINK_USD,
    FIXED,
    LINK_ADDRESS,
    PAIR,
    SPARSE,
    TOKEN_USD,
    UNISWAP_V2,
    USDC,
    USDC_ADDRESS,
    document,
)

pytestmark = pytest.mark.django_db

WRONG_CHECKSUM = "0xa0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"
ADDRESS_FAULT = "must be an EVM address: 0x and 40 hexadecimal digits"
CHECKSUM_FAULT = "invalid checksum: a character of this address is mistyped"
SECONDS_FAULT = "a whole number from 1 to 2147483647 is required"
RATE_FAULT = "a decimal number is required, such as 0.0005 or 3000"


def test_every_fault_of_the_file_is_reported_at_once(tmp_path: Path) -> None:
    load(document(USDC), tmp_path)
    content = document(
        SPARSE
        | {
            "network": "nowhere",
            "address": WRONG_CHECKSUM,
            "enabled": "yes",
            "margin_bps": 10_001,
            "max_spread_bps": "5",
            "decimals": 6,
            "sources": [
                FIXED | {"rate": "1e3", "max_age_seconds": 0, "feed": TOKEN_USD},
                {"kind": "chainlink_usd", "feed": WRONG_CHECKSUM, "sequencer_grace_seconds": -1},
                {"kind": "chainlink", "feed": "0x12", "color": "red"},
                {},
                "fixed",
                UNISWAP_V2 | {"min_liquidity": "1000"},
            ],
        },
        {"network": "mainnet", "symbol": "ETH", "address": LINK_ADDRESS, "sources": {}},
        {"network": 1, "symbol": "has space", "address": LINK_ADDRESS, "sources": [None]},
        {},
        "USDC",
        {"network": "mainnet", "symbol": "OTHER", "address": USDC_ADDRESS.lower(), "sources": []},
    )
    assert faults({**content, "signers": 5}, tmp_path) == [
        "signers: a list is required",
        "fee_tokens[0].decimals: unknown field",
        f"fee_tokens[0].address: {CHECKSUM_FAULT}",
        "fee_tokens[0].enabled: true or false is required",
        "fee_tokens[0].margin_bps: a whole number from 0 to 10000 is required",
        "fee_tokens[0].max_spread_bps: a whole number from 0 to 10000 is required",
        "fee_tokens[0].sources[0].feed: unknown field",
        f"fee_tokens[0].sources[0].rate: {RATE_FAULT}",
        f"fee_tokens[0].sources[0].max_age_seconds: {SECONDS_FAULT}",
        f"fee_tokens[0].sources[1].feed: {CHECKSUM_FAULT}",
        "fee_tokens[0].sources[1].heartbeat_seconds: this field is required",
        "fee_tokens[0].sources[1].native_feed: this field is required",
        "fee_tokens[0].sources[1].native_heartbeat_seconds: this field is required",
        "fee_tokens[0].sources[1].sequencer_grace_seconds: a whole number from 0 to 2147483647 is required",
        "fee_tokens[0].sources[2].color: unknown field",
        "fee_tokens[0].sources[2].kind: must be one of: fixed, chainlink_usd, chainlink_native, uniswap_v2",
        f"fee_tokens[0].sources[2].feed: {ADDRESS_FAULT}",
        "fee_tokens[0].sources[3].kind: this field is required",
        "fee_tokens[0].sources[4]: an object is required",
        f"fee_tokens[0].sources[5].min_liquidity: a whole number from 0 to {2**128 - 1} is required",
        "fee_tokens[0].network: unknown network: add it to NETWORKS_FILE",
        "fee_tokens[1].sources: a list is required",
        "fee_tokens[1].symbol: ETH is the native coin of mainnet",
        "fee_tokens[2].network: a string is required",
        "fee_tokens[2].sources[0]: null is not allowed here",
        "fee_tokens[2].symbol: spaces and control characters are not allowed",
        "fee_tokens[3].network: this field is required",
        "fee_tokens[3].symbol: this field is required",
        "fee_tokens[3].address: this field is required",
        "fee_tokens[3].sources: this field is required",
        "fee_tokens[4]: an object is required",
        "fee_tokens[5].address: another token on this network has this address",
    ]


def test_one_token_cannot_stand_twice(tmp_path: Path) -> None:
    twice = "duplicate token"
    content = document(SPARSE, SPARSE, SPARSE | {"address": PAIR}, SPARSE | {"address": 5})
    assert faults(content, tmp_path) == [
        f"fee_tokens[1].symbol: {twice}",
        f"fee_tokens[2].symbol: {twice}",
        "fee_tokens[3].address: a string is required",
        f"fee_tokens[3].symbol: {twice}",
    ]


def test_two_tokens_cannot_have_one_address(tmp_path: Path) -> None:
    other = SPARSE | {"symbol": "LINK.e", "address": LINK_ADDRESS.lower()}
    assert faults(document(SPARSE, other), tmp_path) == [
        "fee_tokens[1].address: another token on this network has this address"
    ]
    # Nor that of one that is there already.
    load(document(USDC, SPARSE), tmp_path)
    assert faults(document(USDC | {"address": LINK_ADDRESS}), tmp_path) == [
        "fee_tokens[0].address: another token on this network has this address"
    ]


@pytest.mark.parametrize(
    ("rate", "fault"),
    [
        (3000.5, "a string is required"),
        ("0", "the rate must be above zero"),
    ],
)
def test_a_rate_is_a_decimal_number_in_a_string(tmp_path: Path, rate: Any, fault: str) -> None:
    told = faults(document(SPARSE | {"sources": [FIXED | {"rate": rate}]}), tmp_path)
    assert told == [f"fee_tokens[0].sources[0].rate: {fault}"]


def test_a_rule_of_the_model_uses_the_name_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: PriceSource) -> None:
        raise ValidationError({"min_liquidity_text": f"{source.min_liquidity_text} is refused"})

    monkeypatch.setattr(PriceSource, "clean", refuse)
    told = faults(document(SPARSE | {"sources": [UNISWAP_V2 | {"min_liquidity": 5}]}), tmp_path)
    assert told == ["fee_tokens[0].sources[0].min_liquidity: 5 is refused"]


@pytest.mark.parametrize("least", [-1, 2**128, True])
def test_the_least_liquidity_is_a_whole_number(tmp_path: Path, least: Any) -> None:
    told = faults(document(SPARSE | {"sources": [UNISWAP_V2 | {"min_liquidity": least}]}), tmp_path)
    assert told == [f"fee_tokens[0].sources[0].min_liquidity: a whole number from 0 to {2**128 - 1} is required"]


@pytest.mark.parametrize(("name", "value"), [("symbol", "A" * 33), ("symbol", "A\0B"), ("network", "main\0net")])
def test_a_text_that_no_column_takes_is_one_fault(tmp_path: Path, name: str, value: str) -> None:
    [told] = faults(document(SPARSE | {name: value}), tmp_path)
    assert told.startswith(f"fee_tokens[0].{name}: ")


def test_what_is_printed_is_written_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIDDEN", "hidden-SECRET")
    monkeypatch.delenv("MISSING", raising=False)
    entry = SPARSE | {
        "network": "${HIDDEN}",
        "symbol": "X${HIDDEN}",
        "sources": [FIXED | {"rate": "${HIDDEN}"}, CHAINLINK_USD | {"feed": "${MISSING}"}],
    }
    assert faults(document(entry), tmp_path) == [
        "fee_tokens[0].network: the network cannot be taken from the environment",
        "fee_tokens[0].symbol: the symbol cannot be taken from the environment",
        "fee_tokens[0].sources[1].feed: the environment variable MISSING is not set or empty",
        f"fee_tokens[0].sources[0].rate: {RATE_FAULT}",
    ]
