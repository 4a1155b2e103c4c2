"""An estimate in all its parts, for people: every number that went into a fee, exactly, and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from relayer_service.admin.dashboard import ago
from relayer_service.amounts import decimal_text, rate_text, with_bps
from relayers.chain.gas_price import FeeRules
from relayers.chain.networks import L1Fee
from rpc.dashboard import moment
from rpc.fees.estimate import Estimate

GWEI_DECIMALS = 9
# Buffer and margin are basis points, which add four decimals each to an amount.
MORE_DECIMALS = 8


@dataclass(frozen=True)
class Item:
    """One line: its name, its value, and a note on where it comes from."""

    name: str
    value: str
    note: str = ""
    is_total: bool = False


def items(found: Estimate) -> list[Item]:
    """Return the lines of an estimate, in the order in which it is computed."""
    return [*_gas(found), *_price(found), *_fees(found), *_conversion(found)]


def _gas(found: Estimate) -> list[Item]:
    note = "estimated by the node" if found.is_estimated else "the transaction's own limit, as the policy says"
    lines = [Item("Sender", found.sender), Item("Gas", f"{found.gas:,}", note)]
    if found.l1_gas:
        lines.append(Item("L1 gas", f"{found.l1_gas:,}", "a part of the gas above"))
    if found.gas_buffer_bps:
        buffered = exact(with_bps(found.gas, found.gas_buffer_bps), 0)
        lines.append(Item("Gas with buffer", grouped(buffered), f"+ {percent(found.gas_buffer_bps)}"))
    return lines


def _price(found: Estimate) -> list[Item]:
    price, lines = found.gas_price, []
    note = "as the node gives it"
    if price.base_fee is not None and price.priority_fee is not None:
        margin = percent(FeeRules.of(found.network).base_fee_margin_bps)
        lines = [
            Item("Base fee", gwei(price.base_fee), "of the next block"),
            Item("Tip", gwei(price.priority_fee), "from the last blocks, or the least that is set"),
        ]
        note = f"base fee + {margin}, and the tip"
    if price.is_capped:
        note = "capped by the policy gas_price_cap"
    return [*lines, Item("Price per gas", gwei(price.price), note)]


def _fees(found: Estimate) -> list[Item]:
    gas_fee = with_bps(found.gas, found.gas_buffer_bps) * found.gas_price.price
    lines = [Item("Gas fee", coins(found, gas_fee))]
    if found.network.l1_fee == L1Fee.OP_STACK:
        lines += [
            Item("L1 data fee", coins(found, found.l1_fee)),
            Item("Operator fee", coins(found, found.operator_fee)),
        ]
    if found.blob_fee:
        lines.append(Item("Blob fee", coins(found, found.blob_fee)))
    return [*lines, Item("Total in the native coin", coins(found, found.native), is_total=True)]


def _conversion(found: Estimate) -> list[Item]:
    total = Item("Estimated fee", f"{found.estimated_fee} {found.symbol}", "rounded up once", is_total=True)
    if not found.quote.sources:
        return [total]
    per_coin = f"{found.symbol} for 1 {found.network.symbol}"
    sources = [
        Item(f"Source: {price.name}", f"{rate_text(price.rate)} {per_coin}", ago(moment(price.updated_at)))
        for price in found.quote.sources
    ]
    rate = Item("Conversion rate", f"{found.conversion_rate} {per_coin}", "the median" if len(sources) > 1 else "")
    return [*sources, rate, Item("Margin", percent(found.margin_bps), "of the token"), total]


def exact(amount: Fraction | int, decimals: int) -> str:
    """Return an amount of a smallest unit in whole ones, exactly."""
    units = Fraction(amount) * 10**MORE_DECIMALS
    assert units.denominator == 1
    return decimal_text(units.numerator, decimals + MORE_DECIMALS)


def grouped(number: str) -> str:
    """Return a decimal number with commas in its whole part."""
    whole, point, part = number.partition(".")
    return f"{int(whole):,}{point}{part}"


def gwei(wei: Fraction | int) -> str:
    return f"{exact(wei, GWEI_DECIMALS)} gwei"


def coins(found: Estimate, amount: Fraction | int) -> str:
    return f"{exact(amount, found.network.decimals)} {found.network.symbol}"


def percent(bps: int) -> str:
    return f"{decimal_text(bps, 2)} %"
