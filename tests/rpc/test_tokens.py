"""Which token a fee is quoted in: by exact symbol, by address, or the native coin."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chain.answering_node import node_answering
from tests.rpc.estimates import ask, failure, fee, relayer_at
from tests.rpc.factories import TOKEN, fee_token, fixed_source

pytestmark = pytest.mark.django_db

# Letters in both cases, so that the case of each can be wrong.
ADDRESS = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"


def not_supported(symbols: str) -> dict[str, Any]:
    return failure(
        -32001,
        "Token not supported",
        "Fees cannot be quoted in this token on hardhat: it is not registered or has no price source. "
        f"Use one of: {symbols}.",
    )


def ask_for(wanted: str, **changes: Any) -> dict[str, Any]:
    with node_answering() as node:
        return ask(relayer_at(node.url, **changes), wanted)


@pytest.mark.parametrize(
    "wanted", ["USDC", ADDRESS, ADDRESS.lower(), "0x" + ADDRESS[2:].upper()], ids=["symbol", "mixed", "lower", "upper"]
)
def test_a_token_is_found_by_its_symbol_and_by_its_address_in_any_case(wanted: str) -> None:
    fixed_source(fee_token(address=ADDRESS, decimals=6), "3000")
    # 21,000 gas at 1,000,120 wei is 0.00000002100252 coins, and 0.00006300756 tokens.
    assert ask_for(wanted) == {
        "result": {"estimated_fee": "0.000064", "conversion_rate": "3000", "method": "feeEstimate"}
    }


@pytest.mark.parametrize(
    "wanted",
    ["usdc", "USDC\n", "\uff35SDC", "eth", "%", "x" * 100_000, "0X" + ADDRESS[2:], ADDRESS + "0", TOKEN],
)
def test_what_is_not_registered_to_the_letter_is_not_supported(wanted: str) -> None:
    fixed_source(fee_token(address=ADDRESS, decimals=6))
    assert ask_for(wanted) == not_supported("ETH, USDC")


def test_the_same_symbol_on_another_network_is_another_token() -> None:
    fixed_source(fee_token(network="sepolia", decimals=6), "5")
    fixed_source(fee_token(address=ADDRESS, decimals=6), "3000")
    assert ask_for("USDC")["result"]["conversion_rate"] == "3000"


def test_a_token_with_the_native_coins_symbol_does_not_stand_in_its_way() -> None:
    fixed_source(fee_token(symbol="ETH", address=ADDRESS, decimals=6), "3000")
    assert ask_for("ETH") == fee("0.00000002100252")


def test_an_error_lists_twenty_symbols_at_most() -> None:
    for number in range(21):
        fixed_source(fee_token(symbol=f"T{number:02}", address=f"0x{number + 1:040x}", decimals=6))
    listed = ", ".join(["ETH", *(f"T{number:02}" for number in range(20))])
    assert ask_for("USDC") == not_supported(f"{listed} and others")
