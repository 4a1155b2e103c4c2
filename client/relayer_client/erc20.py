"""Transfers of ERC-20 tokens: exact amounts, and the call of the contract."""

from decimal import Decimal
from fractions import Fraction
from typing import TypedDict

from relayer_client.addresses import check_address

TRANSFER = "a9059cbb"
MAX_UNITS = 2**256 - 1


class Call(TypedDict):
    to: str
    data: str


def to_units(amount: Decimal | int, decimals: int) -> int:
    """Return an amount of whole tokens in their smallest unit, or raise `ValueError` if it is not exact."""
    if not isinstance(amount, Decimal | int) or isinstance(amount, bool):
        raise TypeError(f'The amount must be a Decimal, as Decimal("12.50"), or an int, not {type(amount).__name__}.')
    if isinstance(amount, Decimal) and not amount.is_finite():
        raise ValueError(f"The amount must be a number, not {amount}.")
    units = Fraction(amount) * 10**decimals
    if units.denominator != 1:
        raise ValueError(f"The amount {amount} has more digits than the token, which has {decimals} decimals.")
    if not 0 <= units <= MAX_UNITS:
        raise ValueError(f"The amount must not be negative or above 2^256 - 1 of the smallest unit, not {amount}.")
    return int(units)


def transfer(token: str, to: str, amount: Decimal | int, *, decimals: int) -> Call:
    """Return the fields that transfer whole tokens, such as for `relayer.dry_run`, `relayer.replace` and `enqueue`."""
    receiver, units = check_address(to)[2:].lower(), to_units(amount, decimals)
    return {"to": check_address(token), "data": f"0x{TRANSFER}{receiver:0>64}{units:064x}"}
