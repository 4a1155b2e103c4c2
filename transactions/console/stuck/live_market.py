"""The market of a lane as its nodes report it now, for pages that show prices against it."""

from __future__ import annotations

from chain.errors import ChainFault
from relayer_service.background.shares import Busy, waiting_for_others
from relayer_service.storage.encryption import DecryptionError
from transactions.lanes.prices.market import MarketPrice, gather_values, market_readings, read_market
from transactions.models import Lane, Transaction
from transactions.records.networks import network_of


def read_prices(lane: Lane) -> dict[str, MarketPrice]:
    """Return the market price by speed; {} if no node answers in time. This calls nodes, at most one batch."""
    if lane.relayer is None:
        return {}
    network, policies = network_of(lane.relayer), lane.relayer.policies
    try:
        nodes = lane.relayer.node_urls()
        with waiting_for_others():
            readings = market_readings(network, policies, lane.address)
            found = gather_values(nodes, network, policies, lane.address, readings)
        return {speed: read_market(network, policies, found, speed) for speed in Transaction.Speed.values}
    except (Busy, ChainFault, DecryptionError):
        return {}
