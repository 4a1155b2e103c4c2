"""Exact arithmetic of fees, rounded up once, at the end; amounts as people write and read them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import NamedTuple

from django.core.exceptions import ValidationError

BASIS_POINTS = 10_000
# Digits of a rate that does not terminate: more than any amount of 2^128 wei has.
RATE_DIGITS = 40
# From here on a whole number is shown with an exponent.
LONG = 10**15
RATE = re.compile(r"[0-9]{1,60}(\.[0-9]{1,60})?", re.ASCII)
# Those of 2^256 - 1.
MAX_DIGITS = 78
# An amount that would need more decimal places is shown in the smallest unit.
MAX_DECIMAL_PLACES = 9
# A unit that starts with a digit is separated by a space.
AMOUNT = re.compile(
    r"(?P<whole>[0-9]{1,78})(?:\.(?P<part>[0-9]{1,78}))?\s*(?P<unit>(?:(?<=\s)|(?![0-9.]))\S*)", re.ASCII
)
WITH_COMMA = re.compile(r"[0-9]+,[0-9]", re.ASCII)
# Decimals by unit, the smallest first.
GWEI = "gwei"
WEI_UNITS = {"wei": 0, GWEI: 9}
TOKEN_UNITS = {"units": 0, "unit": 0}
UNKNOWN = ": the symbol and decimals of this contract are unknown"


@dataclass(frozen=True)
class Amount:
    """An expected amount and its maximum."""

    expected: Fraction | int = 0
    maximum: Fraction | int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.expected + other.expected, self.maximum + other.maximum)

    def __bool__(self) -> bool:
        return self.maximum != 0


NOTHING = Amount()


def with_bps(amount: Fraction | int, bps: int) -> Fraction:
    # One fraction and not three, as each is reduced to its lowest terms.
    return Fraction(amount.numerator * (BASIS_POINTS + bps), amount.denominator * BASIS_POINTS)


def token_units(native: Fraction | int, rate: Fraction, decimals: int, native_decimals: int, margin_bps: int) -> int:
    """Convert an amount in the native coin's smallest unit to the token's: rounded up once, and at least 1."""
    above: int = native.numerator * rate.numerator * 10**decimals * (BASIS_POINTS + margin_bps)
    below: int = native.denominator * rate.denominator * 10**native_decimals * BASIS_POINTS
    return max(1, -(-above // below))


def decimal_text(units: int, decimals: int) -> str:
    """Return an amount in the smallest unit as text in whole tokens, exact and without an exponent."""
    whole, part = divmod(units, 10**decimals)
    return f"{whole}.{part:0{decimals}}".rstrip("0") if part else str(whole)


def rounded_text(units: int, decimals: int, digits: int, *, up: bool = False) -> str:
    """Return an amount for display with this number of significant digits, rounded down or up.

    The whole part is rounded only if it is so long that it needs an exponent.
    """
    if up:
        hidden = len(str(units)) - digits
        step = 10 ** max(0, hidden if units >= LONG * 10**decimals else min(hidden, decimals))
        units = -(-units // step) * step
    whole, part = divmod(units, 10**decimals)
    if whole >= LONG:
        first = str(whole)[:digits]
        return f"{first[0]}.{first[1:]}e{len(str(whole)) - 1}"
    padded = f"{part:0{decimals}}" if part else ""
    significant = len(str(whole)) if whole else len(padded.lstrip("0")) - len(padded)
    kept = padded[: max(0, digits - significant)].rstrip("0")
    return f"{whole:,}.{kept}" if kept else f"{whole:,}"


def whole_number(text: str) -> int | str:
    """Return digits as a number, and any other text as it is, for the validators to refuse."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else text


class Currency(NamedTuple):
    """A coin or a token, as people write and read amounts of it. Without a symbol, only its other units are known."""

    symbol: str = ""
    decimals: int = 0
    units: Mapping[str, int] = TOKEN_UNITS

    @property
    def smallest(self) -> str:
        return next(iter(self.units))

    @property
    def example(self) -> str:
        whole = [f"{'0.5' if self.decimals else 5} {self.symbol}"] if self.symbol else []
        return " or ".join([*whole, *([f"30 {GWEI}"] if GWEI in self.units else [])])

    def show(self, amount: int, digits: int | None = None, *, up: bool = False) -> str:
        """Return an amount, exact or rounded to its first digits; in the smallest unit if it is tiny."""
        is_tiny = 0 < amount < 10 ** max(0, self.decimals - MAX_DECIMAL_PLACES)
        decimals, unit = (0, self.smallest) if is_tiny or not self.symbol else (self.decimals, self.symbol)
        text = rounded_text(amount, decimals, digits, up=up) if digits else decimal_text(amount, decimals)
        singular = unit.removesuffix("s")
        return f"{text} {singular if text == '1' and singular in self.units else unit}"

    def parse(self, text: str) -> int | str:
        """Return an amount in the smallest unit, and what is no amount as it is, for the validators to refuse."""
        if WITH_COMMA.match(text):
            raise ValidationError("must have no thousands separator, and a point before decimals: 1000 or 1.5")
        match = AMOUNT.fullmatch(text)
        if match is None:
            return whole_number(text)
        decimals = {**({self.symbol.lower(): self.decimals} if self.symbol else {}), **self.units}
        unit, part = match["unit"].lower(), (match["part"] or "").rstrip("0")
        if not unit and not match["part"]:
            unit = self.smallest
        if unit not in decimals:
            known = f", or an amount with its unit, for example {self.example}" if self.example else UNKNOWN
            raise ValidationError(f"must be a whole number of {self.smallest}{known}")
        if len(part) > decimals[unit]:
            raise ValidationError(f"{match['unit']} has at most {decimals[unit]} decimal places")
        return whole_number(f"{match['whole']}{part:0<{decimals[unit]}}".lstrip("0") or "0")


# Of any network.
COINS = Currency("coins", 18, WEI_UNITS | {"coin": 18})


def rate_text(rate: Fraction) -> str:
    """Return a rate as a decimal number with up to 40 significant digits."""
    context = Context(prec=RATE_DIGITS, rounding=ROUND_HALF_EVEN, Emin=-10_000, Emax=10_000)
    value = context.divide(Decimal(rate.numerator), Decimal(rate.denominator))
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def parse_rate(text: str) -> Decimal:
    """Return the rate in a text; raise `ValueError` if it is not a decimal number above zero."""
    if not RATE.fullmatch(text):
        raise ValueError("a decimal number is required, such as 0.0005 or 3000")
    rate = Decimal(text)
    if rate == 0:
        raise ValueError("the rate must be above zero")
    return rate
