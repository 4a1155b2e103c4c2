"""The fee of a transaction, in a token: what has to be read, and what it adds up to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from relayer_service.amounts import decimal_text, rate_text, token_units, with_bps
from relayer_service.storage.databases import release_connection
from relayers.chain import gas_estimate, gas_price, l1
from relayers.chain.gas_price import FeeRules, GasPrice
from relayers.chain.l1 import OperatorFee
from relayers.chain.networks import Network, networks
from relayers.chain.readings import Reading, gather
from relayers.chain.transactions import NotATransaction, Transaction, decode
from rpc import errors
from rpc.fees import tokens
from rpc.fees.prices import Quote, price_reading
from rpc.fees.tokens import Token
from rpc.relayer_lookup import RpcRelayer


@dataclass(frozen=True)
class Estimate:
    """A fee and its parts. Amounts are in the native coin's smallest unit unless they say otherwise."""

    network: Network
    sender: str
    gas: int
    is_estimated: bool
    gas_buffer_bps: int
    gas_price: GasPrice
    # Of an Arbitrum chain: the part of the gas that pays for L1.
    l1_gas: int
    l1_fee: int
    operator_fee: int
    blob_fee: Fraction
    native: Fraction
    symbol: str
    decimals: int
    margin_bps: int
    quote: Quote
    # In the token's smallest unit.
    units: int

    @property
    def estimated_fee(self) -> str:
        return decimal_text(self.units, self.decimals)

    @property
    def conversion_rate(self) -> str:
        return rate_text(self.quote.rate)


def estimate(relayer: RpcRelayer, fee_token: str, network: str, transaction: str) -> Estimate:
    """Estimate the fee of an encoded transaction through a relayer."""
    if network not in {relayer.network, relayer.network_type}:
        raise errors.InvalidParams(f"network: the relayer is on {relayer.network} ({relayer.network_type})")
    known = networks().get(relayer.network)
    if known is None:
        raise errors.InsufficientData(
            "The service does not know the relayer's network, and so neither its coin nor its fees: NETWORKS_FILE can "
            "add it."
        )
    decoded = _decode(transaction, known)
    _check_receiver(relayer, decoded)
    sender = decoded.sender or relayer.address
    if not sender:
        raise errors.InsufficientData("The relayer's address is not known yet, and the transaction is not signed.")
    token = tokens.find(known, fee_token)
    readings = _readings(relayer, known, decoded, sender, token)
    release_connection()
    with errors.chain_faults():
        found = gather(relayer.node_urls(), known.chain_id, readings)
    if token is not None and token.decimals is None:
        tokens.keep_decimals(fee_token, token, found["price"].decimals)
    return compute(relayer.policies, known, decoded, sender, token, found)


def _decode(text: str, network: Network) -> Transaction:
    try:
        transaction = decode(text)
    except NotATransaction as error:
        raise errors.InvalidParams(f"transaction: {error}") from None
    if transaction.chain_id not in {None, network.chain_id}:
        raise errors.InvalidParams(
            f"transaction: it is for chain {transaction.chain_id}, and {network.name} is chain {network.chain_id}"
        )
    return transaction


def _check_receiver(relayer: RpcRelayer, transaction: Transaction) -> None:
    allowed = relayer.policies.get("whitelist_receivers")
    if allowed is None:
        return
    if transaction.to is None:
        raise errors.PolicyRefused("The relayer's policy whitelist_receivers does not allow contracts to be created.")
    if transaction.to.lower() not in {address.lower() for address in allowed}:
        raise errors.PolicyRefused("The relayer's policy whitelist_receivers does not allow this receiver.")


def _readings(
    relayer: RpcRelayer, network: Network, transaction: Transaction, sender: str, token: Token | None
) -> dict[str, Reading]:
    """Return what has to be read, the transaction's own first: its errors come before all others."""
    readings = {}
    if relayer.policies.get("gas_limit_estimation", True):
        readings["gas"] = gas_estimate.reading(transaction, sender)
    elif not transaction.gas:
        raise errors.InvalidParams("transaction: it has no gas limit, and the relayer's policy is not to estimate it")
    if relayer.policies.get("eip1559_pricing", True):
        readings["history"] = gas_price.history_reading(network)
    else:
        readings["gas_price"] = gas_price.gas_price_reading(network)
    if transaction.blob_hashes:
        readings["blob_price"] = gas_price.blob_price_reading(network)
    readings |= l1.readings(network, transaction)
    if token is not None:
        readings["price"] = price_reading(token, network)
    return readings


def compute(
    policies: Mapping[str, Any],
    network: Network,
    transaction: Transaction,
    sender: str,
    token: Token | None,
    found: dict[str, Any],
) -> Estimate:
    """Return the estimate from what was read: exact, and rounded up once, to the token's smallest unit."""
    rules, cap = FeeRules.of(network), policies.get("gas_price_cap")
    if "history" in found:
        price = gas_price.dynamic_price(found["history"], rules, cap)
    else:
        price = gas_price.single_price(found["gas_price"], cap)
    is_estimated = "gas" in found
    used, buffer_bps = (found["gas"], rules.gas_buffer_bps) if is_estimated else (transaction.gas, 0)
    buffered = with_bps(used, buffer_bps)
    l1_fee = found.get("l1_fee", 0)
    operator_fee = found.get("operator_fee", OperatorFee()).of(math.ceil(buffered))
    blob_fee = with_bps(transaction.blob_gas * found.get("blob_price", 0), rules.base_fee_margin_bps)
    native = buffered * price.price + l1_fee + operator_fee + blob_fee
    quote = found.get("price") or Quote(Fraction(1), (), network.decimals)
    margin_bps = token.margin_bps if token else 0
    return Estimate(
        network=network,
        sender=sender,
        gas=used,
        is_estimated=is_estimated,
        gas_buffer_bps=buffer_bps,
        gas_price=price,
        l1_gas=found.get("l1_gas", 0),
        l1_fee=l1_fee,
        operator_fee=operator_fee,
        blob_fee=blob_fee,
        native=native,
        symbol=token.symbol if token else network.symbol,
        decimals=quote.decimals,
        margin_bps=margin_bps,
        quote=quote,
        units=token_units(native, quote.rate, quote.decimals, network.decimals, margin_bps),
    )
