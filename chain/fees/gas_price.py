"""The price of a unit of gas. A signed transaction pays its own price, an unsigned one the market price.

The latter is limited by the transaction's price fields and the sender's price cap.
"""

from dataclasses import dataclass, replace
from fractions import Fraction

from chain.errors import CannotBeIncluded, InsufficientData, PriceCapTooLow
from chain.fees.fee_history import BaseFeeSource, Market
from chain.networks import Network
from chain.nodes.plausibility import MAX_CHANGE_DENOMINATOR
from chain.transactions import Transaction
from chain.units import gwei
from relayer_service.amounts import with_bps


@dataclass(frozen=True)
class GasPrice:
    """The price of a unit of gas, in wei."""

    expected: Fraction | int
    maximum: Fraction | int
    # None if the node reported a single price.
    base_fee: int | None = None
    base_fee_source: BaseFeeSource | None = None
    priority_fee: int | None = None
    is_capped: bool = False
    # Whether the transaction's own price fields are the limit.
    is_own: bool = False


def at_market(
    transaction: Transaction, market: Market, network: Network, *, cap: int | None, pays_priority_fee: bool = True
) -> GasPrice:
    """Return the price on a network with a base fee; the maximum includes a margin, as the base fee may rise."""
    base_fee, limit = market.base_fee, transaction.prices.limit
    _check_offer(transaction, cap, base_fee)
    priority_fee = _priority_fee(transaction, market, network) if pays_priority_fee else 0
    price = GasPrice(
        expected=base_fee + priority_fee,
        maximum=with_bps(base_fee, network.base_fee_margin_bps) + priority_fee,
        base_fee=base_fee,
        base_fee_source=market.base_fee_source,
        priority_fee=priority_fee,
    )
    return _limited(price, transaction, limit, cap)


def _check_offer(transaction: Transaction, cap: int | None, base_fee: int, prefix: str = "") -> None:
    """Raise an error if the price cap or the transaction's offer is below the base fee."""
    limit = transaction.prices.limit
    if not transaction.is_signed and cap is not None and cap < base_fee:
        raise PriceCapTooLow(gwei(cap), prefix + gwei(base_fee))
    if limit is not None and limit < base_fee:
        raise CannotBeIncluded(f"it offers {gwei(limit)} per gas, below the next base fee of {prefix}{gwei(base_fee)}")


def _priority_fee(transaction: Transaction, market: Market, network: Network) -> int:
    own = transaction.prices
    if transaction.is_signed and own.gas_price is not None:
        # A legacy price is paid in full.
        return own.gas_price - market.base_fee
    if transaction.is_signed and own.max_priority_fee is not None:
        return own.max_priority_fee
    offered = max(market.priority_fee, network.tip_floor)
    return offered if own.max_priority_fee is None else min(offered, own.max_priority_fee)


def at_single_price(transaction: Transaction, price: int, last_base_fee: int | None, *, cap: int | None) -> GasPrice:
    """Return the node's single price; no price may be below the base fee, if the network has one."""
    limit = transaction.prices.limit
    if last_base_fee is not None:
        lowest = last_base_fee - last_base_fee // MAX_CHANGE_DENOMINATOR
        _check_offer(transaction, cap, lowest, "at least ")
        if price < lowest:
            raise InsufficientData("The node's gas price is below its base fee.")
    if transaction.is_signed and limit is not None:
        # The maximum fee, as the base fee is unknown.
        price = limit
    return _limited(GasPrice(price, price), transaction, limit, cap)


def _limited(price: GasPrice, transaction: Transaction, limit: int | None, cap: int | None) -> GasPrice:
    """Return the price within the transaction's own limit, and within the cap if it is not signed."""
    if limit is not None and price.maximum >= limit:
        price = replace(price, expected=min(price.expected, limit), maximum=limit, is_own=True)
    if cap is not None and not transaction.is_signed and price.maximum > cap:
        price = replace(price, expected=min(price.expected, cap), maximum=cap, is_capped=True)
    return price
