"""Rows, attempts and readings of a lane with fixed values, none of them in a database."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from chain.errors import ChainFault
from chain.fees.fee_history import REQUESTED_PERCENTILES, FeeHistory
from chain.fees.gas_estimate import GasEstimate
from chain.networks import Network, networks
from chain.nodes.head import Head
from chain.readings import ChainReading
from tests.chain.answering_node import ANSWERS
from transactions.lanes.prices.context import AccountState, TurnContext
from transactions.lanes.prices.market import GasMarket, Sender, market_readings
from transactions.lanes.prices.planning import Account
from transactions.lanes.prices.simulation import row_readings
from transactions.models import Attempt, Transaction

GWEI = 10**9
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
ADDRESS = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
RECEIVER = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"
BASE_FEE, TIP = 10 * GWEI, 2 * GWEI


def network(name: str = "mainnet", **changes: Any) -> Network:
    return dataclasses.replace(networks()[name], **changes)


def row(pk: int = 1, **changes: Any) -> Transaction:
    values = {"sequence": pk, "lane_id": 1, "to": RECEIVER, "value_text": "0", "valid_until": NOW + timedelta(hours=8)}
    return Transaction(**values | changes)


def account(**changes: Any) -> Account:
    values: dict[str, Any] = {"balance": 10**18, "in_flight_cost": 0, "room": 16, "has_unmined": False}
    return Account(**values | changes)


def sender_of(network: Network | None = None, policies: Mapping[str, Any] | None = None, reserve: int = 0) -> Sender:
    return Sender(network or networks()["mainnet"], policies or {}, ADDRESS, reserve=reserve)


def attempt(max_fee: int = 20 * GWEI, tip: int = 2 * GWEI, *, seconds_ago: float = 0, **changes: Any) -> Attempt:
    """Return an attempt that was broadcast for the first time so many seconds ago."""
    at = NOW - timedelta(seconds=seconds_ago)
    values: dict[str, Any] = {
        "purpose": Attempt.Purpose.SEND,
        "max_fee_text": str(max_fee),
        "max_priority_fee_text": str(tip),
        "gas_limit": 21_000,
        "max_cost_text": str(21_000 * max_fee),
        "signed_at": at,
        "first_broadcast_at": at,
        "last_broadcast_at": at,
        "broadcasts": 1,
    }
    return Attempt(**values | changes)


def legacy_attempt(gas_price: int = 20 * GWEI, **changes: Any) -> Attempt:
    return attempt(**{"gas_price_text": str(gas_price), "max_fee_text": "", "max_priority_fee_text": "", **changes})


def head(base_fee: int | None = BASE_FEE, **changes: Any) -> Head:
    values = {"number": 100, "timestamp": 1_700_000_000, "gas_used": 15_000_000, "gas_limit": 30_000_000}
    return Head(**values | changes, base_fee=base_fee)


def history(base_fee: int = BASE_FEE, tip: int = TIP) -> FeeHistory:
    """Return a history with the same priority fee at all percentiles."""
    return FeeHistory(base_fee, True, 50, ((tip,) * len(REQUESTED_PERCENTILES),) * 3)


def context(
    sender: Sender | None = None,
    gas: int | ChainFault | Mapping[int, Any] = 21_000,
    charges: Mapping[str, Any] | None = None,
    noop_gas: int | ChainFault | None = None,
    budget: Any = None,
    **changes: Any,
) -> TurnContext:
    """Return the context of a turn: the market with changes, and the same gas and charges for each row."""
    given = gas if isinstance(gas, Mapping) else dict.fromkeys(range(20), gas)
    estimates = {pk: GasEstimate(each) if isinstance(each, int) else each for pk, each in given.items()}
    state = {name: changes.pop(name) for name in ("balance", "count", "block") if name in changes}
    return TurnContext(
        sender or sender_of(),
        market(sender, **changes),
        AccountState(**{"balance": 10**18, "count": 0, **state}),
        NOW,
        {pk: {"gas": each, **(charges or {})} for pk, each in estimates.items()},
        GasEstimate(noop_gas) if isinstance(noop_gas, int) else noop_gas,
        budget=budget,
    )


def market(sender: Sender | None = None, base_fee: int = BASE_FEE, tip: int = TIP, **changes: Any) -> GasMarket:
    """Return the market with the same priority fee at all percentiles, or with other values read."""
    newest, limit = changes.pop("head", head(base_fee)), changes.pop("tip_limit", None)
    return GasMarket(sender or sender_of(), newest, {"history": history(base_fee, tip), **changes}, limit)


def read_all(sender: Sender, row: Transaction, head: Head, **changes: Any) -> TurnContext:
    """Return the context of a turn whose calls a node answers as ANSWERS has it, with changes by method."""
    answers = {method: answer["result"] for method, answer in ANSWERS.items()} | changes

    def read(readings: Mapping[str, ChainReading]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, reading in readings.items():
            try:
                values[name] = reading.read([answers[call.method] for call in reading.calls])
            except ChainFault as fault:
                values[name] = fault
        return values

    found = GasMarket(sender, head, read(market_readings(sender)))
    return TurnContext(sender, found, AccountState(10**18, 0), NOW, {row.pk: read(row_readings(sender, row))})
