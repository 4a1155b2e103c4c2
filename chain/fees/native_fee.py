"""The fee of a transaction in the network's coin: its readings, and its computation from their values."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from chain import limits
from chain.errors import CannotBeIncluded
from chain.fees import fee_history, gas_price
from chain.fees.gas_price import GasPrice
from chain.fees.network_fees import KINDS, Charges, FeeModel
from chain.networks import BaseFeeRule, Network
from chain.nodes.head import Head
from chain.readings import ChainReading
from chain.transactions import Transaction
from chain.units import gwei
from relayer_service.amounts import BASIS_POINTS, NOTHING, Amount, with_bps

# Hardhat estimates one more than a transfer needs.
MAX_ESTIMATE_EXCESS = 1


@dataclass(frozen=True)
class FeeOptions:
    """The sender's options for gas and price."""

    # False: the transaction's gas limit is used.
    estimate_gas: bool = True
    # False: a single gas price, even on a network with a base fee.
    use_base_fee: bool = True
    # The maximum price of a unit of gas for unsigned transactions, in wei.
    price_cap: int | None = None


@dataclass(frozen=True)
class Gas:
    """The gas that is paid for, and the estimate it is derived from."""

    # The node's estimate, or the transaction's own limit.
    estimate: int
    is_estimated: bool
    buffer_bps: int
    paid: Amount


@dataclass(frozen=True)
class NativeFee:
    """A fee and its parts, in the native coin's smallest unit."""

    network: Network
    head: Head
    sender: str
    gas: Gas
    price: GasPrice
    charges: Charges
    blob_fee: Amount

    @cached_property
    def gas_fee(self) -> Amount:
        return Amount(self.gas.paid.expected * self.price.expected, self.gas.paid.maximum * self.price.maximum)

    @cached_property
    def total(self) -> Amount:
        return self.gas_fee + self.charges.l1_fee + self.charges.operator_fee + self.blob_fee


def readings(network: Network, options: FeeOptions, transaction: Transaction, sender: str) -> dict[str, ChainReading]:
    """Return the readings. The transaction comes first: its errors take precedence."""
    model = KINDS[network.kind]
    limit = transaction.gas_limit if options.estimate_gas else transaction.gas
    if limit is not None and limit < (minimum := model.minimum_gas(transaction, network)):
        raise CannotBeIncluded(f"its gas limit is {limit}, and it needs at least {minimum}")
    found = {"gas": model.gas_reading(transaction, sender)} if options.estimate_gas else {}
    if _has_base_fee(network, options):
        found |= model.market_readings(network, transaction, sender)
    else:
        found["gas_price"] = fee_history.price_reading("eth_gasPrice", "gas price")
    if transaction.blob_hashes:
        found["blob_price"] = fee_history.price_reading("eth_blobBaseFee", "blob base fee")
    return found | model.charge_readings(transaction)


def compute(
    network: Network,
    options: FeeOptions,
    transaction: Transaction,
    sender: str,
    found: Mapping[str, Any],
    speed: str | None = None,
) -> NativeFee:
    """Return the exact fee from the values read."""
    model, cap = KINDS[network.kind], options.price_cap
    gas = _gas(network, model, transaction, found["gas"].gas if options.estimate_gas else None)
    if _has_base_fee(network, options):
        market = model.market(network, found, speed)
        price = gas_price.at_market(transaction, market, network, cap=cap, pays_priority_fee=model.pays_priority_fee)
    else:
        price = gas_price.at_single_price(transaction, found["gas_price"], found["head"].base_fee, cap=cap)
    charges = model.charges(found, gas.paid, network.l1_fee_margin_bps)
    blob_fee = _blob_fee(transaction, network, found.get("blob_price", 0))
    return NativeFee(network, found["head"], sender, gas, price, charges, blob_fee)


def _has_base_fee(network: Network, options: FeeOptions) -> bool:
    return options.use_base_fee and network.base_fee_rule != BaseFeeRule.NONE


def _gas(network: Network, model: FeeModel, transaction: Transaction, estimate: int | None) -> Gas:
    if estimate is None:
        return Gas(transaction.gas, False, 0, Amount(transaction.gas, transaction.gas))
    limit, needed = transaction.gas_limit, estimate
    if limit is not None:
        if limit + MAX_ESTIMATE_EXCESS < estimate and not model.pads_estimates:
            raise CannotBeIncluded(f"its gas limit is {limit}, and it needs {estimate}")
        needed = min(estimate, limit)
    is_transfer = needed == limits.TRANSFER_GAS and not model.has_l1_gas
    buffer_bps = 0 if is_transfer else network.gas_buffer_bps
    buffered: Fraction | int = with_bps(needed, buffer_bps)
    if network.tx_gas_cap is not None:
        if needed > network.tx_gas_cap:
            maximum = f"the maximum of {network.tx_gas_cap} on {network.name}"
            raise CannotBeIncluded(f"it needs {needed} gas, above {maximum}")
        buffered = min(buffered, network.tx_gas_cap)
    if limit is None:
        limit = math.ceil(buffered)
    # A signed transaction may use its whole limit.
    used = Amount(needed, min(math.ceil(buffered), limit) if transaction.is_signed else buffered)
    if network.unused_gas_charge_bps:
        part = Fraction(network.unused_gas_charge_bps, BASIS_POINTS)
        used += Amount((limit - used.expected) * part, (limit - used.maximum) * part)
    return Gas(estimate, True, buffer_bps, used)


def _blob_fee(transaction: Transaction, network: Network, price: int) -> Amount:
    if not transaction.blob_hashes:
        return NOTHING
    limit = transaction.prices.max_blob_fee
    maximum: Fraction | int = with_bps(price, network.base_fee_margin_bps)
    if limit is not None and limit < price:
        raise CannotBeIncluded(f"it offers {gwei(limit)} per blob gas, below the blob base fee of {gwei(price)}")
    if limit is not None:
        maximum = min(maximum, limit)
    return Amount(transaction.blob_gas * price, transaction.blob_gas * maximum)
