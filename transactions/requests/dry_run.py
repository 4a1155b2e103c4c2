"""What would happen to a request: each rule with its verdict, and what the nodes say of its gas and price.

Nothing is accepted, locked or counted: another request can use what is left of a limit before the next one is sent.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.conf import settings

from chain.errors import ChainFault
from relayer_service.api.exceptions import Conflict, Forbidden
from relayer_service.background.shares import waiting_for_others
from relayer_service.database.clock import database_now
from relayer_service.storage.encryption import DecryptionError
from relayers.models import Relayer
from spending import rules as spending_rules
from transactions.lanes.prices.costs import in_flight_costs, settled_costs
from transactions.limits.counters import Counters
from transactions.limits.holders import GAS, Holder, gas_refusals, limit_verdict, limits_of, payload_of, read_holders
from transactions.models import IS_IN_FLIGHT, Lane, Transaction
from transactions.records import queues
from transactions.records.networks import network_of
from transactions.records.routing import UNREADABLE_NODES
from transactions.requests import accepting

STATE, POLICIES, QUEUE = "state", "policies", "queue"


class Check(NamedTuple):
    """A rule that needs no counter. Its source is the relayer's state, policies or queue, or a holder of rules."""

    source: str
    rule: str
    allowed: bool
    text: str


class LimitCheck(NamedTuple):
    """A limit per 24 hours; `amount` is what the request would count, None if that is unknown."""

    source: str
    rule: str
    name: str
    maximum: int
    used: int
    amount: int | None
    allowed: bool

    @property
    def left(self) -> int:
        return max(0, self.maximum - self.used)


class Estimate(NamedTuple):
    """Gas limit and price of the first attempt, or why there is none now: `reason`."""

    gas_limit: int | None = None
    gas_price: int | None = None
    max_fee: int | None = None
    max_priority_fee: int | None = None
    max_gas_cost: int | None = None
    reason: str | None = None


class DryRun(NamedTuple):
    checks: Sequence[Check]
    limits: Sequence[LimitCheck]
    estimate: Estimate

    @property
    def allowed(self) -> bool:
        """Whether it would be accepted. For a limit of gas a transaction waits, unless a check refuses it."""
        return all(each.allowed for each in self.checks) and all(
            each.allowed for each in self.limits if each.name != GAS
        )


def check(
    relayer: Relayer, values: Mapping[str, Any], token_spending: int | None = None, requester: str = ""
) -> DryRun:
    """Return what would happen to a request of valid shape."""
    now = database_now()
    try:
        accepting.check_account(relayer)
    except Conflict as fault:
        # Without an account or a network, there is nothing to compare with.
        return DryRun([Check(STATE, STATE, False, str(fault.detail))], [], Estimate(reason=str(fault.detail)))
    network, lane = network_of(relayer), Lane.objects.filter(relayer=relayer).first()
    row = accepting.new_row(values, relayer, lane or Lane(), now)
    row.sequence = 0
    missing: list[Check] = []
    try:
        holders = read_holders(relayer, token_spending)
    except Forbidden as refusal:
        holders = []
        missing.append(Check("token", "token", False, str(refusal.detail)))
    faults = accepting.find_faults(values, relayer, now, holders)
    state = accepting.PAUSED if relayer.paused else "The relayer accepts transactions."
    checks = [Check(STATE, "paused", not relayer.paused, state)]
    for name, texts in faults.items():
        checks += [Check(POLICIES, name, False, text) for text in texts]
    if not faults:
        text = f"The relayer's policies and the limits of {network.name} allow it."
        checks.append(Check(POLICIES, POLICIES, True, text))
    queue = queues.count(lane, requester) if lane else queues.Queue()
    taken = f"{max(queue.own, queue.shared)} of {settings.TRANSACTION_QUEUE_LIMIT} places are taken."
    checks += [Check(QUEUE, QUEUE, not queue.refusal(), queue.refusal() or taken), *missing]
    for holder in holders:
        found = spending_rules.verdicts(holder.rules, payload_of(row, relayer.address))
        found += [verdict for _, verdict in gas_refusals([holder], row)]
        checks += [Check(holder.name, each.rule, each.allowed, each.text) for each in found]
    estimate = _estimate(relayer, lane, row, now)
    return DryRun(checks, list(_limit_checks(holders, row, estimate, now)), estimate)


def _limit_checks(
    holders: Sequence[Holder], row: Transaction, estimate: Estimate, now: datetime
) -> Iterator[LimitCheck]:
    found = limits_of(holders)
    counters = Counters([holder.key(limit) for holder, limit in found], now, lock=False)
    amounts = spending_rules.amounts(payload_of(row))
    for holder, limit in found:
        amount = estimate.max_gas_cost if limit.name == GAS else amounts.get(limit.name, 0)
        used = counters.used(holder.key(limit))
        verdict = limit_verdict(limit, used, amount or 0)
        allowed = verdict.allowed or not amount
        yield LimitCheck(holder.name, verdict.rule, limit.name, limit.maximum, used, amount, allowed)


def _estimate(relayer: Relayer, lane: Lane | None, row: Transaction, now: datetime) -> Estimate:
    """Read the nodes as a turn of the lane does, and plan the row as the next one."""
    # Imports the engine, which web processes do not need before.
    from transactions.lanes.prices import planning
    from transactions.lanes.prices.context import read_context
    from transactions.lanes.prices.market import Sender

    _, address = accepting.account(relayer)
    in_flight = _in_flight_cost(lane)
    try:
        sender = Sender.of(relayer, address)
        with waiting_for_others():
            context = read_context(sender, [row], now)
    except DecryptionError:
        return Estimate(reason=UNREADABLE_NODES)
    except ChainFault as fault:
        return Estimate(reason=str(fault))
    if lane is not None:
        in_flight += sum(settled_costs(lane, context.account.count).values())
    account = planning.Account(context.account.balance, in_flight, room=1, has_unmined=bool(in_flight))
    (decision,) = planning.plan(context, [row], account)
    if not isinstance(decision, planning.Send):
        return Estimate(reason=decision.reason or None)
    prices = decision.prices
    cost = decision.max_cost - row.value
    return Estimate(decision.gas_limit, prices.gas_price, prices.max_fee, prices.max_priority_fee, cost)


def _in_flight_cost(lane: Lane | None) -> int:
    if lane is None:
        return 0
    rows = Transaction.objects.filter(IS_IN_FLIGHT, lane=lane, epoch=lane.epoch)
    return sum(in_flight_costs(rows.select_related("last_attempt")).values())
