"""A day of simulated blocks with a fee spike: what a lane pays against the minimum possible, and how long it waits.

Nothing is measured in time: the blocks are computed, and prices are those that the service's own functions choose.
"""

from __future__ import annotations

import os
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import django
from django.apps import apps

if not apps.ready:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()

from chain.fees.fee_history import HISTORY_BLOCKS, REQUESTED_PERCENTILES, FeeHistory
from chain.fees.gas_estimate import GasEstimate
from chain.networks import Network, networks
from chain.nodes.head import Head
from chain.nodes.plausibility import by_eip_1559
from chain.transactions import Prices
from transactions.lanes import gate
from transactions.lanes.prices import bumping, planning, pricing
from transactions.lanes.prices.context import AccountState, TurnContext
from transactions.lanes.prices.market import GasMarket, Sender
from transactions.models import Attempt, Transaction
from transactions.records.payloads import attempt_prices

GWEI = 10**9
DAY_BLOCKS = 7_200
GAS_LIMIT = 30_000_000
# The spike: when it begins and ends, as parts of the day.
SPIKE = (Fraction(1, 3), Fraction(5, 12))
CALM_PRICE, SPIKE_PRICE = GWEI, 60 * GWEI
# A transaction is accepted every so many blocks.
EVERY_BLOCKS = 10
START = datetime(2026, 1, 1, tzinfo=UTC)
GAS = 100_000
BALANCE = 10**24
ADDRESS = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"


@dataclass(frozen=True)
class Block:
    number: int
    base_fee: int
    gas_used: int
    # The lowest tip that it includes.
    min_tip: int

    @property
    def rewards(self) -> tuple[int, ...]:
        return tuple(self.min_tip + self.min_tip * percentile // 50 for percentile in REQUESTED_PERCENTILES)


def day(blocks: int = DAY_BLOCKS, seed: int = 1) -> list[Block]:
    """Return blocks whose base fee follows EIP-1559: they are full while senders would pay more than it."""
    chance = random.Random(seed)
    begin, end = (int(blocks * part) for part in SPIKE)
    base_fee, found = CALM_PRICE, []
    for number in range(blocks):
        is_spike = begin <= number < end
        demand = (SPIKE_PRICE if is_spike else CALM_PRICE) * chance.uniform(0.8, 1.2)
        fullness = chance.uniform(0.75, 1) if base_fee < demand else chance.uniform(0.1, 0.45)
        gas_used = int(GAS_LIMIT * fullness)
        tip = chance.uniform(1, 4) * GWEI if is_spike else chance.uniform(0.01, 0.1) * GWEI
        found.append(Block(number, base_fee, gas_used, int(tip)))
        base_fee = by_eip_1559(base_fee, gas_used, GAS_LIMIT)
    return found


@dataclass
class Sent:
    """A transaction of the simulation, and what became of it."""

    row: Transaction
    accepted: int
    due: int
    attempts: list[Attempt] = field(default_factory=list)
    mined: int | None = None
    paid: int = 0
    minimum: int = 0


@dataclass(frozen=True)
class FeeDay:
    """The result of a day for one speed and one cap."""

    speed: str
    cap_gwei: int | None
    accepted: int
    mined: int
    bumps: int
    median_blocks: int
    longest_blocks: int
    # What was paid above the lowest price of the same blocks, in percent.
    above_minimum_percent: float
    # Blocks from the end of the spike until nothing that was accepted before is unmined.
    blocks_to_recover: int


class Lane:
    """One account that sends through the functions of the service."""

    def __init__(self, network: Network, blocks: Sequence[Block], speed: str, cap: int | None) -> None:
        self.network, self.blocks, self.speed = network, blocks, speed
        self.policies: dict[str, Any] = {} if cap is None else {"gas_price_cap": cap}
        self.queue: list[Sent] = []
        self.in_flight: list[Sent] = []
        self.mined: list[Sent] = []
        self.next_nonce = 0
        self.bumps = 0

    def run(self) -> None:
        for block in self.blocks[HISTORY_BLOCKS:]:
            self._mine(block)
            now = START + timedelta(seconds=block.number * self.network.block_seconds)
            if block.number % EVERY_BLOCKS == 0:
                self._accept(block, now)
            context = self._read(block, now)
            self._review(context)
            self._plan(context, block.number)

    def _accept(self, block: Block, now: datetime) -> None:
        pk = len(self.queue) + len(self.in_flight) + len(self.mined) + 1
        row = Transaction(sequence=pk, lane_id=1, to=ADDRESS, speed=self.speed, valid_until=now + timedelta(days=2))
        self.queue.append(Sent(row, block.number, block.number))

    def _read(self, block: Block, now: datetime) -> TurnContext:
        """Return what a node reports after a block."""
        last = self.blocks[block.number - HISTORY_BLOCKS + 1 : block.number + 1]
        next_base_fee = by_eip_1559(block.base_fee, block.gas_used, GAS_LIMIT)
        history = FeeHistory(next_base_fee, True, 50, tuple(each.rewards for each in last))
        head = Head(block.number, 0, block.gas_used, GAS_LIMIT, block.base_fee)
        sender = Sender(self.network, self.policies, ADDRESS)
        estimates = {each.row.pk: {"gas": GasEstimate(GAS)} for each in self.queue}
        market, account = GasMarket(sender, head, {"history": history}), AccountState(BALANCE, len(self.mined))
        return TurnContext(sender, market, account, now, estimates)

    def _mine(self, block: Block) -> None:
        """Include what the block's price allows, in the order of nonces; the highest attempt of each counts."""
        while self.in_flight:
            sent = self.in_flight[0]
            prices = pricing.highest(sent.attempts) or Prices()
            tip = min(prices.max_priority_fee or 0, pricing.maximum(prices) - block.base_fee)
            if tip < block.min_tip:
                return
            sent.mined, sent.paid, sent.minimum = block.number, block.base_fee + tip, block.base_fee + block.min_tip
            self.mined.append(self.in_flight.pop(0))

    def _review(self, context: TurnContext) -> None:
        now = context.now
        for sent in self.in_flight[:3]:
            last = sent.attempts[-1]
            if gate.is_due(last, self.network, now):
                last.broadcasts, last.last_broadcast_at = last.broadcasts + 1, now
            bump = bumping.review_price(context, sent.row, sent.attempts, BALANCE)
            if bump is not None and bump.prices is not None:
                self._sign(sent, bump.prices, pricing.cost_after(last, bump.prices), now)
                self.bumps += 1

    def _plan(self, context: TurnContext, number: int) -> None:
        due = {each.row.pk: each for each in self.queue if each.due <= number}
        room = self.network.window - len(self.in_flight)
        account = planning.Account(BALANCE, 0, room, bool(self.in_flight))
        rows = [each.row for each in due.values()][:16]
        for decision in planning.plan(context, rows, account):
            sent = due[decision.row.pk]
            if isinstance(decision, planning.Send):
                sent.row.nonce, self.next_nonce = self.next_nonce, self.next_nonce + 1
                self._sign(sent, decision.prices, decision.max_cost, context.now)
                self.queue.remove(sent)
                self.in_flight.append(sent)
            elif isinstance(decision, planning.Wait):
                sent.row.tries += 1
                sent.due = number + max(1, round(decision.seconds / self.network.block_seconds))

    def _sign(self, sent: Sent, prices: Prices, max_cost: int, now: datetime) -> None:
        attempt = Attempt(
            purpose=Attempt.Purpose.BUMP if sent.attempts else Attempt.Purpose.SEND,
            max_fee_text=str(prices.max_fee),
            max_priority_fee_text=str(prices.max_priority_fee),
            gas_limit=GAS,
            max_cost_text=str(max_cost),
            signed_at=now,
            first_broadcast_at=now,
            last_broadcast_at=now,
            broadcasts=1,
        )
        assert not sent.attempts or pricing.maximum(prices) > pricing.maximum(attempt_prices(sent.attempts[-1]))
        sent.attempts.append(attempt)


def simulate(speed: str, cap: int | None, blocks: Sequence[Block], network: Network | None = None) -> FeeDay:
    """Return what a lane paid in these blocks with transactions of one speed."""
    lane = Lane(network or replace(networks()["mainnet"]), blocks, speed, cap)
    lane.run()
    waits = [(each.mined or 0) - each.accepted for each in lane.mined]
    end = int(len(blocks) * SPIKE[1])
    unmined = any(each.accepted < end for each in [*lane.queue, *lane.in_flight])
    last = max((each.mined or 0 for each in lane.mined if each.accepted < end), default=end)
    return FeeDay(
        speed=speed,
        cap_gwei=None if cap is None else cap // GWEI,
        accepted=len(lane.queue) + len(lane.in_flight) + len(lane.mined),
        mined=len(lane.mined),
        bumps=lane.bumps,
        median_blocks=round(statistics.median(waits)),
        longest_blocks=max(waits),
        above_minimum_percent=round(
            100 * (sum(each.paid for each in lane.mined) / sum(each.minimum for each in lane.mined) - 1), 1
        ),
        blocks_to_recover=len(blocks) if unmined else max(last - end, 0),
    )


def run(blocks: int = DAY_BLOCKS) -> list[FeeDay]:
    """Return the results for each speed, without a cap and with one below the price of the spike."""
    simulated = day(blocks)
    return [simulate(speed, cap, simulated) for cap in (None, 20 * GWEI) for speed in Transaction.Speed.values]


def table(rows: Sequence[FeeDay]) -> str:
    """Return the results as a table in Markdown."""
    lines = [
        "| speed | cap | accepted | mined | bumps | blocks until mined, p50 | longest | above minimum | to recover |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cap = "none" if row.cap_gwei is None else f"{row.cap_gwei} gwei"
        lines.append(
            f"| {row.speed} | {cap} | {row.accepted} | {row.mined} | {row.bumps} | {row.median_blocks} | "
            f"{row.longest_blocks} | {row.above_minimum_percent}% | {row.blocks_to_recover} blocks |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(run()))
