"""The market of a lane: what the next block costs, for each speed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from chain.errors import ChainFault, ExecutionReverted, InsufficientData
from chain.fees import fee_history
from chain.fees.fee_models import KINDS
from chain.fees.gas_price import FeeRules
from chain.networks import BaseFeeRule, Network, NetworkKind
from chain.nodes.failover import Node
from chain.nodes.head import Head
from chain.nodes.plausibility import plausible_base_fee, tip_limit
from chain.readings import HEAD, ChainReading, gather_each
from chain.transactions import Prices
from relayer_service.database.ttl_cache import TTLCache
from transactions.models import Transaction
from transactions.records import payloads
from transactions.records.payloads import has_base_fee

Speed = Transaction.Speed
# Blocks after which a transaction of a speed should be in one, or else its price is raised.
BUMP_BLOCKS: dict[str, int] = {Speed.FASTEST: 2, Speed.FAST: 3, Speed.AVERAGE: 6, Speed.SAFE_LOW: 15}
# The base fee rises by at most an eighth per block: the headroom of a maximum fee covers that many full blocks.
BLOCK_RISE = Fraction(9, 8)
MIN_HEADROOM, MAX_HEADROOM = Fraction(5, 4), Fraction(3)
# A legacy price is paid in full, so that headroom is never free.
LEGACY_HEADROOM: dict[str, Fraction] = {
    Speed.FASTEST: Fraction(5, 4),
    Speed.FAST: Fraction(11, 10),
    Speed.AVERAGE: Fraction(21, 20),
    Speed.SAFE_LOW: Fraction(1),
}
Readings = Mapping[str, ChainReading]
# The reading of Linea's market by a no-op, for transactions whose own estimate is unknown.
LINEA_MARKET = "market"
# The maximum tip that is believed, among the values read.
TIP_LIMIT = "tip_limit"
# Tips that were believed recently: the highest of each minute, by chain, nodes and whether there is a base fee.
TIP_MINUTES = 10
_tips: TTLCache[Hashable, int] = TTLCache()


@dataclass(frozen=True)
class MarketPrice:
    """The price of a unit of gas in the next block, for one speed, in wei."""

    speed: str
    # 0 if the network has none.
    base_fee: int
    # Of the speed, and the minimum of the network.
    tip: int
    min_tip: int
    # What the node reports as the price, if base fees are not used.
    gas_price: int | None = None

    @property
    def current(self) -> int:
        """The price at this speed, never 0: a price of 0 could not be outbid by a share of it."""
        return max(self.base_fee + self.tip, self.gas_price or 0, 1)

    @property
    def lowest(self) -> int:
        """The lowest price at which a block includes a transaction."""
        has_no_base_fee = self.gas_price is not None and not self.base_fee
        return max(self.gas_price or 0 if has_no_base_fee else self.base_fee + self.min_tip, 1)

    def offer(self, *, is_legacy: bool) -> Prices:
        """Return the first price of a transaction."""
        if is_legacy:
            reported = math.ceil((self.gas_price or 0) * LEGACY_HEADROOM[self.speed])
            return Prices(gas_price=max(reported, self.base_fee + self.tip, 1))
        headroom = min(max(BLOCK_RISE ** (BUMP_BLOCKS[self.speed] + 1), MIN_HEADROOM), MAX_HEADROOM)
        max_fee = max(math.ceil(self.base_fee * headroom) + self.tip, self.current)
        return Prices(max_fee=max_fee, max_priority_fee=self.tip)


def market_readings(network: Network, policies: Mapping[str, Any], address: str) -> dict[str, ChainReading]:
    """Return the readings of the market, which all lanes with the same nodes share."""
    if not has_base_fee(network, policies):
        return {"gas_price": fee_history.price_reading("eth_gasPrice", "gas price")}
    model, sample = KINDS[network.kind], payloads.noop(network, address)
    if network.kind == NetworkKind.LINEA:
        reading = model.gas_reading(sample, address)
        return {LINEA_MARKET: ChainReading(reading.calls, reading.read, key="Linea's market")}
    return model.market_readings(network, sample, address)


def read_market(
    network: Network, policies: Mapping[str, Any], found: Mapping[str, Any], speed: str, own_gas: Any = None
) -> MarketPrice:
    """Return the market from the values read; raise a `ChainFault` if they are missing.

    `own_gas` is a transaction's own estimate, with which Linea returns its price.
    """
    speed = speed or Speed.FAST
    model, head = KINDS[network.kind], checked(found, HEAD)
    floor = FeeRules.for_network(network).priority_fee_floor if model.pays_priority_fee else 0
    if not has_base_fee(network, policies):
        # A single price is paid in full, the part for the base fee included.
        limit = found.get(TIP_LIMIT, network.max_gas_price)
        base_fee, quoted = min(_base_fee_of_head(network, head), limit), min(checked(found, "gas_price"), limit)
        return MarketPrice(speed, base_fee, floor if base_fee else 0, floor if base_fee else 0, quoted)
    if network.kind == NetworkKind.LINEA:
        market = model.market(network, {**found, "gas": _linea_gas(found, own_gas)}, speed)
    else:
        for name in ("history", "base_fee"):
            if name in found:
                checked(found, name)
        market = model.market(network, found, speed)
    base_fee = plausible_base_fee(network, market.base_fee, head)
    believed = min(market.priority_fee, found.get(TIP_LIMIT, network.tip_ceiling))
    return MarketPrice(speed, base_fee, max(believed, floor) if model.pays_priority_fee else 0, floor)


def gather_values(
    nodes: Sequence[Node], network: Network, policies: Mapping[str, Any], address: str, readings: Readings
) -> dict[str, Any]:
    """Read values as `gather_each` does, with the maximum tip to believe: by earlier readings, or by a second node.

    The nodes are asked again, one by one, only if the tip is above that of earlier readings.
    """
    found = gather_each(nodes, network, readings)
    tip, minute = _highest_tip(network, policies, lambda: found), int(time.monotonic() // 60)
    is_tip = has_base_fee(network, policies)
    source = network.chain_id, frozenset(nodes), is_tip
    earlier = max(_tips.get((source, each)) or 0 for each in range(minute - TIP_MINUTES, minute))
    limit = tip_limit(network.tip_ceiling if is_tip else network.max_gas_price, earlier)
    if tip > limit and len(nodes) > 1:
        wanted = market_readings(network, policies, address)
        tips = [_highest_tip(network, policies, partial(gather_each, [node], network, wanted)) for node in nodes]
        limit = max(limit, sorted(tips)[-2])
    believed = max(min(tip, limit), _tips.get((source, minute)) or 0)
    _tips.set((source, minute), believed, 60 * (TIP_MINUTES + 1))
    return {**found, TIP_LIMIT: limit}


def _highest_tip(network: Network, policies: Mapping[str, Any], read: Callable[[], Mapping[str, Any]]) -> int:
    """Return the tip of the fastest speed, or the price if there is only one; 0 if the node does not report it."""
    try:
        market = read_market(network, policies, read(), Speed.FASTEST)
    except ChainFault:
        return 0
    return market.tip if market.gas_price is None else market.current


def _linea_gas(found: Mapping[str, Any], own_gas: Any) -> Any:
    if own_gas is not None and not isinstance(own_gas, ChainFault):
        return own_gas
    try:
        return checked(found, LINEA_MARKET)
    except ExecutionReverted:
        # That of a no-op: it says nothing about the transaction whose price is read.
        raise InsufficientData("The node did not report the market price.") from None


def checked(found: Mapping[str, Any], name: str) -> Any:
    """Return a value that was read; raise the `ChainFault` if it could not be."""
    value = found[name]
    if isinstance(value, ChainFault):
        raise value
    return value


def _base_fee_of_head(network: Network, head: Head) -> int:
    """Return the next base fee as far as the head block reveals it."""
    if network.base_fee_rule == BaseFeeRule.NONE or head.base_fee is None:
        return 0
    # Out of range on purpose: it is replaced by what the head block permits.
    return plausible_base_fee(network, -1, head) if network.base_fee_rule == BaseFeeRule.EIP_1559 else head.base_fee
