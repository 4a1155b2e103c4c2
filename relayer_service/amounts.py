"""Exact arithmetic of fees: integers and fractions, rounded up once, at the end."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

BASIS_POINTS = 10_000
# Digits of a rate that does not terminate: more than any amount of 2^128 wei has.
RATE_DIGITS = 40
# From here on a whole number is shown with an exponent.
LONG = 10**15
RATE = re.compile(r"[0-9]{1,60}(\.[0-9]{1,60})?", re.ASCII)


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
