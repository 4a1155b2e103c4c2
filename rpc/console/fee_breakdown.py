"""A quote in all its parts for the admin: every number behind a fee, exactly, and its origin."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from chain.fees.fee_history import BaseFeeSource
from chain.fees.gas_price import GasPrice
from chain.fees.native_fee import NativeFee
from chain.networks import Network
from relayer_service.amounts import Amount, decimal_text, rate_text
from relayer_service.console.dates import ago
from rpc.console.formatting import moment
from rpc.errors import RpcError
from rpc.fees.quote import FeeQuote, TokenFee

GWEI_DECIMALS = 9
# Four for each factor in basis points: the buffer, the charge for unused gas, the margin of the base fee.
MORE_DECIMALS = 12

BASE_FEE_SOURCES = {
    BaseFeeSource.FEE_HISTORY: "next block, from the fee history",
    BaseFeeSource.ETH_BASE_FEE: "next block, from eth_baseFee",
    BaseFeeSource.LINEA: "next block, from linea_estimateGas",
    BaseFeeSource.COMPUTED: "next block, computed by EIP-1559",
    BaseFeeSource.LAST_BLOCK: "last block",
}


@dataclass(frozen=True)
class Item:
    name: str
    value: str
    maximum: str = ""
    note: str = ""
    is_total: bool = False


def items(quote: FeeQuote) -> list[Item]:
    """Return the items of a quote, in the order of its computation."""
    fee = quote.native
    lines = [*_block(fee), *_gas(fee), *_price(fee), *_fees(fee)]
    for name, token in quote.tokens.items():
        lines += [Item(name, "no fee", note=token.description)] if isinstance(token, RpcError) else _token(fee, token)
    return lines


def _block(fee: NativeFee) -> Iterator[Item]:
    yield Item("Block", f"{fee.head.number:,}", note=ago(moment(fee.head.timestamp)))
    yield Item("Sender", fee.sender)


def _gas(fee: NativeFee) -> Iterator[Item]:
    gas = fee.gas
    note = "estimated by the node" if gas.is_estimated else "the transaction's gas limit, by policy"
    yield Item("Gas", f"{gas.estimate:,}", note=note)
    if fee.charges.l1_gas is not None:
        yield Item("L1 gas", f"{fee.charges.l1_gas:,}", note="included in the gas above")
    if gas.is_estimated:
        buffer = f"buffer of {percent(gas.buffer_bps)}" if gas.buffer_bps else "no buffer"
        yield _amount("Gas paid for", gas.paid, lambda amount: grouped(exact(amount, 0)), buffer)


def _price(fee: NativeFee) -> Iterator[Item]:
    price = fee.price
    if price.base_fee_source is not None and price.base_fee is not None and price.priority_fee is not None:
        yield Item("Base fee", gwei(price.base_fee), note=BASE_FEE_SOURCES[price.base_fee_source])
        yield Item("Priority fee", gwei(price.priority_fee))
    yield _amount("Gas price", Amount(price.expected, price.maximum), gwei, _price_note(price, fee.network))


def _price_note(price: GasPrice, network: Network) -> str:
    if price.is_capped:
        return "capped by the policy gas_price_cap"
    if price.is_own:
        return "limited by the transaction's gas price"
    if price.base_fee is None:
        return "reported by the node"
    return f"the base fee may rise by {percent(network.base_fee_margin_bps)}"


def _fees(fee: NativeFee) -> Iterator[Item]:
    def coins(amount: Fraction | int) -> str:
        return f"{exact(amount, fee.network.decimals)} {fee.network.symbol}"

    yield _amount("Gas fee", fee.gas_fee, coins)
    l1_margin = percent(fee.network.l1_fee_margin_bps)
    charges = {
        "L1 data fee": (fee.charges.l1_fee, f"may rise by {l1_margin}"),
        "Operator fee": (fee.charges.operator_fee, ""),
        "Blob fee": (fee.blob_fee, ""),
    }
    for name, (charge, note) in charges.items():
        if charge:
            yield _amount(name, charge, coins, note)
    yield _amount("Total in the native coin", fee.total, coins, is_total=True)


def _token(fee: NativeFee, token: TokenFee) -> Iterator[Item]:
    per_coin = f"{token.symbol} for 1 {fee.network.symbol}"
    sources = token.price.sources
    for source in sources:
        rate = f"{rate_text(source.rate)} {per_coin}"
        yield Item(f"Source: {source.name}", rate, note=ago(moment(source.updated_at)))
    if sources:
        note = "the median" if len(sources) > 1 else ""
        yield Item("Conversion rate", f"{token.conversion_rate} {per_coin}", note=note)
        yield Item("Margin", percent(token.margin_bps), note="of the token")
    expected, maximum = f"{token.expected_fee} {token.symbol}", f"{token.maximum_fee} {token.symbol}"
    yield Item(f"Fee in {token.symbol}", expected, maximum, "rounded up once", is_total=True)


def _amount(
    name: str, amount: Amount, write: Callable[[Fraction | int], str], note: str = "", *, is_total: bool = False
) -> Item:
    return Item(name, write(amount.expected), write(amount.maximum), note, is_total)


def exact(amount: Fraction | int, decimals: int) -> str:
    """Return an amount of the smallest unit in whole units, without rounding."""
    units = Fraction(amount) * 10**MORE_DECIMALS
    assert units.denominator == 1
    return decimal_text(units.numerator, decimals + MORE_DECIMALS)


def grouped(number: str) -> str:
    whole, point, part = number.partition(".")
    return f"{int(whole):,}{point}{part}"


def gwei(wei: Fraction | int) -> str:
    return f"{exact(wei, GWEI_DECIMALS)} gwei"


def percent(bps: int) -> str:
    return f"{decimal_text(bps, 2)} %"
