"""The market of a lane: what the next block costs, for each speed."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from chain.errors import ChainFault, ExecutionReverted, InsufficientData
from chain.fees import fee_history
from chain.fees.gas_estimate import GasEstimate
from chain.fees.network_fees import KINDS
from chain.networks import BaseFeeRule, Network, NetworkKind
from chain.nodes.failover import Node
from chain.nodes.head import Head
from chain.nodes.plausibility import plausible_base_fee, tip_limit
from chain.readings import HEAD, ChainReading, gather_each
from chain.transactions import Prices
from relayer_service.database.ttl_cache import TTLCache
from relayers.models import Relayer
from transactions.models import Transaction
from transactions.records import payloads
from transactions.records.networks import network_of
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
# The reading of Linea's market by a no-op, for transactions whose own estimate is unknown.
LINEA_MARKET = "market"
# Tips that were believed recently: the highest of each minute, by chain, nodes and whether there is a base fee.
TIP_MINUTES = 10
_tips: TTLCache[Hashable, int] = TTLCache()


@dataclass(frozen=True)
class Sender:
    """An account that sends: its network, and the policies, nodes and reserve of its relayer."""

    network: Network
    policies: Mapping[str, Any]
    address: str
    nodes: Sequence[Node] = ()
    # What no transaction may spend, in wei; only no-ops can.
    reserve: int = 0

    @classmethod
    def of(cls, relayer: Relayer, address: str) -> Sender:
        return cls(network_of(relayer), relayer.policies, address, relayer.node_urls(), relayer.reserve)

    @property
    def has_base_fee(self) -> bool:
        return has_base_fee(self.network, self.policies)


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


@dataclass(frozen=True)
class GasMarket:
    """What nodes report of the market of a sender. Instead of a value that they do not report, it has the fault."""

    sender: Sender
    head: Head
    # By the names of `market_readings`.
    values: Mapping[str, Any]
    # The maximum that is believed of a tip, or of the price where there is only one; None: that of the network.
    tip_limit: int | None = None

    def price(self, speed: str, own_gas: GasEstimate | ChainFault | None = None) -> MarketPrice:
        """Return the price for a speed; raise a `ChainFault` if it was not reported.

        `own_gas` is a transaction's own estimate, with which Linea returns its price.
        """
        speed, network = speed or Speed.FAST, self.sender.network
        model = KINDS[network.kind]
        floor = network.tip_floor if model.pays_priority_fee else 0
        if not self.sender.has_base_fee:
            # A single price is paid in full, the part for the base fee included.
            limit = network.max_gas_price if self.tip_limit is None else self.tip_limit
            base_fee, quoted = min(self._base_fee_of_head(), limit), min(checked(self.values["gas_price"]), limit)
            return MarketPrice(speed, base_fee, floor if base_fee else 0, floor if base_fee else 0, quoted)
        if network.kind == NetworkKind.LINEA:
            values: Mapping[str, Any] = {"gas": self._linea_gas(own_gas)}
        else:
            values = {name: checked(value) for name, value in self.values.items()}
        market = model.market(network, {**values, HEAD: self.head}, speed)
        base_fee = plausible_base_fee(network, market.base_fee, self.head)
        believed = min(market.priority_fee, network.tip_ceiling if self.tip_limit is None else self.tip_limit)
        return MarketPrice(speed, base_fee, max(believed, floor) if model.pays_priority_fee else 0, floor)

    def highest_tip(self) -> int:
        """Return the tip of the fastest speed, or the price if there is only one; 0 if it was not reported."""
        try:
            price = self.price(Speed.FASTEST)
        except ChainFault:
            return 0
        return price.tip if price.gas_price is None else price.current

    def _linea_gas(self, own_gas: GasEstimate | ChainFault | None) -> GasEstimate:
        if isinstance(own_gas, GasEstimate):
            return own_gas
        try:
            found: GasEstimate = checked(self.values[LINEA_MARKET])
        except ExecutionReverted:
            # That of a no-op: it says nothing about the transaction whose price is read.
            raise InsufficientData("The node did not report the market price.") from None
        return found

    def _base_fee_of_head(self) -> int:
        """Return the next base fee as far as the head block reveals it."""
        network, head = self.sender.network, self.head
        if network.base_fee_rule == BaseFeeRule.NONE or head.base_fee is None:
            return 0
        if network.base_fee_rule != BaseFeeRule.EIP_1559:
            return head.base_fee
        # Out of range on purpose: it is replaced by what the head block permits.
        return plausible_base_fee(network, -1, head)


def market_readings(sender: Sender) -> dict[str, ChainReading]:
    """Return the readings of the market, which all lanes with the same nodes share."""
    if not sender.has_base_fee:
        return {"gas_price": fee_history.price_reading("eth_gasPrice", "gas price")}
    model, sample = KINDS[sender.network.kind], payloads.noop(sender.network, sender.address)
    if sender.network.kind == NetworkKind.LINEA:
        reading = model.gas_reading(sample, sender.address)
        return {LINEA_MARKET: ChainReading(reading.calls, reading.read, key="Linea's market")}
    return model.market_readings(sender.network, sample, sender.address)


def read_market(sender: Sender, others: Mapping[Any, ChainReading] | None = None) -> tuple[GasMarket, dict[Any, Any]]:
    """Read the market, and other values in the same batch; return it and the value or the fault of each of these.

    The maximum tip to believe follows from earlier readings. If a tip is above it, the nodes are asked again, one by
    one, and a second one has to confirm it.
    """
    market, values = _gather(sender, sender.nodes, others or {})
    tip, minute = market.highest_tip(), int(time.monotonic() // 60)
    source = sender.network.chain_id, frozenset(sender.nodes), sender.has_base_fee
    earlier = max(_tips.get((source, each)) or 0 for each in range(minute - TIP_MINUTES, minute))
    limit = tip_limit(sender.network.tip_ceiling if sender.has_base_fee else sender.network.max_gas_price, earlier)
    if tip > limit and len(sender.nodes) > 1:
        limit = max(limit, sorted(_tip_of(sender, node) for node in sender.nodes)[-2])
    believed = max(min(tip, limit), _tips.get((source, minute)) or 0)
    _tips.set((source, minute), believed, 60 * (TIP_MINUTES + 1))
    return replace(market, tip_limit=limit), values


def _gather(
    sender: Sender, nodes: Sequence[Node], others: Mapping[Any, ChainReading]
) -> tuple[GasMarket, dict[Any, Any]]:
    readings = market_readings(sender)
    values = gather_each(nodes, sender.network, {**others, **readings})
    return GasMarket(sender, values[HEAD], {name: values.pop(name) for name in readings}), values


def _tip_of(sender: Sender, node: Node) -> int:
    try:
        return _gather(sender, [node], {})[0].highest_tip()
    except ChainFault:
        return 0


def checked(value: Any) -> Any:
    """Return a value that was read; raise the `ChainFault` if it could not be."""
    if isinstance(value, ChainFault):
        raise value
    return value
