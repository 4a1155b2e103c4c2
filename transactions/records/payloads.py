"""Rows as unsigned transactions, for simulations, charges by size and checks."""

from collections.abc import Mapping
from typing import Any

import rlp
from rlp.sedes import big_endian_int

from chain.networks import BaseFeeRule, Network
from chain.transactions import Prices
from chain.transactions import Transaction as Payload
from chain.transactions.model import DYNAMIC_FEE, LEGACY
from relayer_service.evm import checksummed
from transactions.models import Attempt, Transaction

Pricing = Transaction.Pricing


def requested_prices(row: Transaction) -> Prices:
    """Return the prices that the client set; none of them if it chose a speed."""
    if row.pricing == Pricing.LEGACY:
        return Prices(gas_price=int(row.gas_price_text))
    if row.pricing == Pricing.EIP1559:
        return Prices(max_fee=int(row.max_fee_text), max_priority_fee=int(row.max_priority_fee_text))
    return Prices()


def attempt_prices(attempt: Attempt) -> Prices:
    if attempt.gas_price_text:
        return Prices(gas_price=int(attempt.gas_price_text))
    return Prices(max_fee=int(attempt.max_fee_text), max_priority_fee=int(attempt.max_priority_fee_text))


def has_base_fee(network: Network, policies: Mapping[str, Any]) -> bool:
    """Return whether prices chosen here have a base fee and a tip."""
    return bool(policies.get("eip1559_pricing", True)) and network.base_fee_rule != BaseFeeRule.NONE


def uses_gas_price(network: Network, policies: Mapping[str, Any], pricing: str = Pricing.SPEED) -> bool:
    """Return whether a transaction has a single gas price, and is of the legacy type."""
    if pricing == Pricing.SPEED or network.base_fee_rule == BaseFeeRule.NONE:
        return not has_base_fee(network, policies)
    return pricing == Pricing.LEGACY


def payload(network: Network, policies: Mapping[str, Any], row: Transaction) -> Payload:
    """Return a row as an unsigned transaction. Fields that are not known yet, such as the nonce, are 0."""
    return unsigned(
        network,
        row.to,
        int(row.value_text),
        bytes(row.data),
        row.requested_gas_limit or 0,
        requested_prices(row),
        is_legacy=uses_gas_price(network, policies, row.pricing),
    )


def noop(network: Network, address: str) -> Payload:
    """Return the transaction that uses a nonce and does nothing: it sends nothing from an account to itself."""
    return unsigned(network, address, 0, b"", 0, Prices(), is_legacy=uses_gas_price(network, {}))


def unsigned(
    network: Network, to: str, value: int, data: bytes, gas: int, prices: Prices, *, is_legacy: bool
) -> Payload:
    receiver = bytes.fromhex(to.removeprefix("0x"))
    work: list[Any] = [_integer(gas), receiver, _integer(value), data]
    if is_legacy:
        prefix, fields = b"", [b"", _integer(prices.limit), *work, _integer(network.chain_id), b"", b""]
    else:
        offered = _integer(prices.max_priority_fee), _integer(prices.max_fee)
        prefix, fields = bytes([DYNAMIC_FEE]), [_integer(network.chain_id), b"", *offered, *work, []]
    return Payload(
        kind=LEGACY if is_legacy else DYNAMIC_FEE,
        chain_id=network.chain_id,
        to=checksummed(to) if to else None,
        value=value,
        data=data,
        gas=gas,
        prices=prices,
        unsigned=prefix + rlp.encode(fields, infer_serializer=False),
    )


def _integer(value: int | None) -> bytes:
    return bytes(big_endian_int.serialize(value or 0))
