"""Whether a relayer can send a requested transaction: its policies and the limits of its network. Pure functions."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from chain import limits
from chain.fees.network_fees import KINDS
from chain.networks import BaseFeeRule, Network
from chain.transactions import NotATransaction
from chain.transactions import Transaction as Payload
from chain.transactions.model import DYNAMIC_FEE, LEGACY
from chain.units import gwei
from relayers.policies import PolicyRefused, check_receiver, fee_options
from transactions.models import Transaction

Faults = dict[str, list[str]]


def pricing_of(values: Mapping[str, Any]) -> str:
    if "gas_price" in values:
        return Transaction.Pricing.LEGACY
    return Transaction.Pricing.EIP1559 if "max_fee_per_gas" in values else Transaction.Pricing.SPEED


def faults(values: Mapping[str, Any], policies: Mapping[str, Any], network: Network, now: datetime) -> Faults:
    """Return why the policies and the network do not allow a request of valid shape, by field."""
    payload = _payload(values, network)
    found: Faults = {}
    try:
        check_receiver(policies, payload)
    except PolicyRefused as refusal:
        found["to"] = [str(refusal)]
    found |= _gas_faults(values, policies, network, payload)
    found |= _price_faults(values, policies, network)
    try:
        limits.check(replace(payload, gas=0), network)
        limits.check_size(payload, network)
    except NotATransaction as fault:
        found["data"] = [str(fault)]
    if (end := values.get("valid_until")) is not None and end <= now:
        found["valid_until"] = ["must be in the future"]
    return found


def _payload(values: Mapping[str, Any], network: Network) -> Payload:
    is_legacy = pricing_of(values) == Transaction.Pricing.LEGACY
    return Payload(
        kind=LEGACY if is_legacy else DYNAMIC_FEE,
        chain_id=network.chain_id,
        to=values.get("to"),
        value=values["value"],
        data=values.get("data", b""),
        gas=values.get("gas_limit", 0),
    )


def _gas_faults(values: Mapping[str, Any], policies: Mapping[str, Any], network: Network, payload: Payload) -> Faults:
    if "gas_limit" not in values:
        if fee_options(policies).estimate_gas:
            return {}
        return {"gas_limit": ["required: the relayer's policy gas_limit_estimation is false"]}
    minimum = KINDS[network.kind].minimum_gas(payload, network)
    if payload.gas < minimum:
        return {"gas_limit": [f"must be at least {minimum}, the minimum of this transaction on {network.name}"]}
    try:
        limits.check(replace(payload, data=b""), network)
    except NotATransaction as fault:
        return {"gas_limit": [str(fault)]}
    return {}


def _price_faults(values: Mapping[str, Any], policies: Mapping[str, Any], network: Network) -> Faults:
    """An explicit price above the cap is refused: lowering it would send what was not requested."""
    found: Faults = {}
    options = fee_options(policies)
    if "max_fee_per_gas" in values:
        if network.base_fee_rule == BaseFeeRule.NONE:
            found["max_fee_per_gas"] = [f"{network.name} has no maximum fees: send gas_price or speed"]
        elif not options.use_base_fee:
            found["max_fee_per_gas"] = ["the relayer's policy eip1559_pricing is false: send gas_price or speed"]
    for name in ("gas_price", "max_fee_per_gas"):
        if options.price_cap is not None and values.get(name, 0) > options.price_cap:
            text = f"must not be above the relayer's policy gas_price_cap, {gwei(options.price_cap)}"
            found.setdefault(name, []).append(text)
    return found
