"""The prices with which a transaction replaces its attempts in flight."""

from collections.abc import Mapping, Sequence
from typing import Any

from chain.networks import Network
from chain.transactions import Prices
from chain.units import gwei
from transactions.lanes.prices import pricing
from transactions.models import Attempt, Transaction
from transactions.records.networks import network_of

Pricing, Speed = Transaction.Pricing, Transaction.Speed
# Fields with explicit prices, by pricing.
PRICE_FIELDS: dict[str, tuple[str, ...]] = {
    Pricing.LEGACY: ("gas_price",),
    Pricing.EIP1559: ("max_fee_per_gas", "max_priority_fee_per_gas"),
    Pricing.SPEED: (),
}
OTHER_TYPE = "the transaction in flight has {}: send {}, or speed"
TOO_LOW = "must be at least {}, to replace the transaction in flight"


def attempts_at_nonce(row: Transaction) -> list[Attempt]:
    """Return the attempts at the nonce of a row, the newest last."""
    if row.nonce is None:
        return []
    # Not filtered by the database: many rows may have been read with their attempts.
    own = [attempt for attempt in row.attempts.all() if (attempt.epoch, attempt.nonce) == (row.epoch, row.nonce)]
    return sorted(own, key=lambda attempt: attempt.number)


def price_faults(values: Mapping[str, Any], attempts: Sequence[Attempt]) -> dict[str, list[str]]:
    """Return why explicit prices cannot replace these attempts, by field: they are used exactly or not at all."""
    highest = pricing.highest(attempts)
    if highest is None:
        return {}
    minimum = pricing.replacement(highest)
    own = Pricing.EIP1559 if minimum.gas_price is None else Pricing.LEGACY
    other = Pricing.LEGACY if own == Pricing.EIP1559 else Pricing.EIP1559
    wrong = [name for name in PRICE_FIELDS[other] if name in values]
    if wrong:
        words = "maximum fees" if own == Pricing.EIP1559 else "a gas price"
        return {wrong[0]: [OTHER_TYPE.format(words, " and ".join(PRICE_FIELDS[own]))]}
    minimums = {
        "gas_price": minimum.gas_price,
        "max_fee_per_gas": minimum.max_fee,
        "max_priority_fee_per_gas": minimum.max_priority_fee,
    }
    return {
        name: [TOO_LOW.format(gwei(minimums[name] or 0))]
        for name in PRICE_FIELDS[own]
        if name in values and values[name] < (minimums[name] or 0)
    }


def next_price(row: Transaction, attempts: Sequence[Attempt], network: Network) -> dict[str, Any]:
    """Return the next speed, or explicit prices that replace the newest attempt, in the fields that can be signed."""
    if row.pricing == Pricing.SPEED:
        return {"speed": next_speed(row)}
    old, highest = pricing.explicit_price(network, row), pricing.highest(attempts)
    if highest is not None and highest.gas_price is not None:
        old = Prices(gas_price=pricing.maximum(old))
    wanted = pricing.replacement(pricing.highest_of(old, highest) if highest else old)
    if wanted.gas_price is not None:
        return {"gas_price": wanted.gas_price}
    return {"max_fee_per_gas": wanted.max_fee, "max_priority_fee_per_gas": wanted.max_priority_fee}


def next_speed(row: Transaction) -> str:
    speeds = list(Speed.values)
    return speeds[min(speeds.index(row.speed or Speed.FAST) + 1, len(speeds) - 1)]


def staff_price_range(row: Transaction, attempts: Sequence[Attempt]) -> tuple[int, int]:
    """Return the minimum and the maximum price of a unit of gas that staff can choose for what replaces attempts.

    The maximum is the relayer's cap, or else that of the network; what is in flight may be above it.
    """
    highest = pricing.highest(attempts)
    minimum = pricing.maximum(pricing.replacement(highest)) if highest else 0
    if row.relayer is None:
        return minimum, minimum
    ceiling = pricing.policy_ceiling(network_of(row.relayer), row.relayer.policies).price
    return minimum, max(minimum, ceiling)


def without_type(price: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return maximum fees as a gas price, which every relayer can send; the cap is the same."""
    return {"gas_price": price["max_fee_per_gas"]} if "max_fee_per_gas" in price else price


def staff_price(row: Transaction) -> dict[str, str]:
    """Return the price that staff request: one step above a client's price may be far from the market."""
    return {} if row.pricing == Pricing.SPEED else {"speed": Speed.FAST}


def requested(row: Transaction) -> dict[str, str]:
    """Return receiver, value and price that are requested of a row, as texts of the audit log."""
    price = f"speed {row.speed}" if row.pricing == Pricing.SPEED else pricing.price_text(row)
    return {"to": row.to or "new contract", "value": f"{row.value} wei", "price": price}
