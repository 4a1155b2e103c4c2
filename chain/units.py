"""Amounts of a network's coin as people write and read them; all others are whole numbers of wei."""

import re

from django.core.exceptions import ValidationError

from chain.networks import Network
from relayer_service.amounts import decimal_text

# Those of 2^256 - 1.
MAX_DIGITS = 78
AMOUNT = re.compile(r"(?P<whole>[0-9]{1,78})(?:\.(?P<part>[0-9]{1,78}))?\s*(?P<unit>(?![0-9.])\S*)", re.A)


def coins(value: int, network: Network | None) -> str:
    """Return an amount of wei in coins of a network, or in wei if the network is unknown."""
    return f"{decimal_text(value, network.decimals)} {network.symbol}" if network else f"{value} wei"


def whole_number(text: str) -> int | str:
    """Return digits as a number, and any other text as it is, for the validators to refuse."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else text


def amount(text: str, network: Network | None) -> int | str:
    """Return an amount with or without a unit in wei, and any other text as it is, for the validators to refuse."""
    match = AMOUNT.fullmatch(text)
    if match is None:
        return whole_number(text)
    unit, part = match["unit"].lower(), (match["part"] or "").rstrip("0")
    decimals = {"wei": 0} | ({network.symbol.lower(): network.decimals} if network else {})
    if not unit and not match["part"]:
        unit = "wei"
    if unit not in decimals:
        example = f", or an amount with its coin, for example 0.5 {network.symbol}" if network else ""
        raise ValidationError(f"must be a whole number of wei{example}")
    if len(part) > decimals[unit]:
        raise ValidationError(f"{match['unit']} has at most {decimals[unit]} decimal places")
    return whole_number(f"{match['whole']}{part:0<{decimals[unit]}}".lstrip("0") or "0")
