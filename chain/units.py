"""Amounts of a network's coin and prices of gas as people write and read them; all others are whole numbers of wei."""

import re

from django.core.exceptions import ValidationError

from chain.networks import Network
from relayer_service.amounts import decimal_text, rounded_text

# Those of 2^256 - 1.
MAX_DIGITS = 78
GWEI, GWEI_DECIMALS = "gwei", 9
# An amount that would need more decimal places is shown in wei.
MAX_DECIMAL_PLACES = 9
SIGNIFICANT_DIGITS = 6
# In wei, a thousandth of a gwei: lower prices are shown in wei.
TINY_PRICE = 10**6
AMOUNT = re.compile(r"(?P<whole>[0-9]{1,78})(?:\.(?P<part>[0-9]{1,78}))?\s*(?P<unit>(?![0-9.])\S*)", re.A)


def coins(value: int, network: Network | None) -> str:
    """Return an amount of wei in coins of a network, or in wei if it is tiny or the network is unknown."""
    decimals, unit = _unit(value, network)
    return f"{decimal_text(value, decimals)} {unit}"


def rounded_coins(value: int, network: Network | None, *, up: bool = False) -> str:
    """Return an amount of wei as `coins` does, but with the first digits only, rounded down or up."""
    decimals, unit = _unit(value, network)
    return f"{rounded_text(value, decimals, SIGNIFICANT_DIGITS, up=up)} {unit}"


def _unit(value: int, network: Network | None) -> tuple[int, str]:
    if network is None or 0 < value < 10 ** max(0, network.decimals - MAX_DECIMAL_PLACES):
        return 0, "wei"
    return network.decimals, network.symbol


def gwei(price: int) -> str:
    """Return a price of gas, in wei if it is tiny."""
    if 0 < price < TINY_PRICE:
        return f"{price} wei"
    return f"{decimal_text(price, GWEI_DECIMALS)} {GWEI}"


def whole_number(text: str) -> int | str:
    """Return digits as a number, and any other text as it is, for the validators to refuse."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else text


def amount(text: str, network: Network | None) -> int | str:
    """Return an amount with or without a unit in wei, and any other text as it is, for the validators to refuse."""
    match = AMOUNT.fullmatch(text)
    if match is None:
        return whole_number(text)
    unit, part = match["unit"].lower(), (match["part"] or "").rstrip("0")
    decimals = {"wei": 0, GWEI: GWEI_DECIMALS} | ({network.symbol.lower(): network.decimals} if network else {})
    if not unit and not match["part"]:
        unit = "wei"
    if unit not in decimals:
        example = f"0.5 {network.symbol} or 30 {GWEI}" if network else f"30 {GWEI}"
        raise ValidationError(f"must be a whole number of wei, or an amount with its unit, for example {example}")
    if len(part) > decimals[unit]:
        raise ValidationError(f"{match['unit']} has at most {decimals[unit]} decimal places")
    return whole_number(f"{match['whole']}{part:0<{decimals[unit]}}".lstrip("0") or "0")
