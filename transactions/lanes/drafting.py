"""From decisions to attempts that are ready to be signed, for one turn of a lane. Nothing is read or written here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from chain.errors import ChainFault
from chain.transactions import Draft, Prices
from chain.units import coins
from transactions import metrics
from transactions.lanes.commits import Result
from transactions.lanes.prices import bumping, planning, pricing
from transactions.lanes.prices.context import TurnContext
from transactions.lanes.prices.planning import MissingFunds, Send, Wait
from transactions.lanes.work import LaneSnapshot
from transactions.models import NOOP_PURPOSES, NOOPS, Attempt, Status, Transaction
from transactions.records import routing
from transactions.settlement import chains

# How many costs of waiting rows are added up.
MAX_WAITING = 1_000
NOT_REPLACED = "It is not replaced yet: {}"


@dataclass(frozen=True)
class Unsigned:
    """An attempt to sign. Those with a `row` in flight and those for unused nonces have their nonce already."""

    row: Transaction | None
    purpose: Attempt.Purpose
    draft: Draft
    max_cost: int
    private_since: int | None = None
    noop_extra: int = 0

    @property
    def gets_a_nonce(self) -> bool:
        return self.row is not None and self.row.nonce is None

    @property
    def traceparent(self) -> str:
        return self.row.traceparent if self.row is not None else ""


class Drafting:
    """Drafts the attempts of a turn; rows that wait or are closed instead are added to its result."""

    def __init__(self, work: LaneSnapshot, context: TurnContext, result: Result) -> None:
        self._work = work
        self._context = context
        self._result = result
        self.missing: MissingFunds | None = None
        # The maximum cost of the rows that get a nonce.
        self._planned_cost = 0
        # Whether no further nonce can be assigned now.
        self.is_full = False

    def review(self, rows: Sequence[Transaction]) -> list[Unsigned]:
        """Return new attempts for rows in flight: no-ops for requested actions, and higher prices."""
        # Mined rows are settled by the watch.
        unmined = [row for row in rows if row.nonce is not None and row.nonce >= self._context.account.count]
        reviewed = [self._review(row, self._work.attempts[row.pk]) for row in unmined if self._work.attempts[row.pk]]
        return [each for each in reviewed if each is not None]

    def _review(self, row: Transaction, attempts: Sequence[Attempt]) -> Unsigned | None:
        work, last = self._work, attempts[-1]
        if is_expiring(row, work.now):
            return None
        if row.is_ending:
            purpose = NOOP_PURPOSES[row.requested_action]
            # The price that staff chose also replaces a no-op of the service, such as that of an expiry.
            if last.purpose not in NOOPS or (row.noop_price_text and last.purpose != purpose):
                return self._noop(row, purpose, last.nonce, attempts)
        elif row.requested_action == Transaction.Action.REPLACE:
            # Nothing else is signed for it: the payload before may not leave any more.
            replacement = self._replace(row, attempts)
            if replacement is None:
                self._gives_up(row, last, None)
            return replacement
        elif row.requested_action == Transaction.Action.SPEED_UP:
            return self._speed_up(row, attempts)
        bump = bumping.review_price(self._context, row, attempts, self._spendable(row, last))
        if self._gives_up(row, last, bump):
            return None
        if bump is not None:
            prices = self._allowed(row, bump)
            return self._bump(row, attempts, prices) if prices else None
        if row.status == Status.SUBMITTED and row.status_reason and not row.requested_action:
            # The ceiling does not matter any more.
            self._result.reasons[row.pk] = row, ""
        return None

    def _allowed(self, row: Transaction, bump: bumping.Bump) -> Prices | None:
        """Return the new price; if a ceiling does not allow it, that is the reason of the row."""
        if bump.prices is None:
            metrics.count(metrics.BUMPS_STOPPED, self._work.lane.chain_id, bump.ceiling)
            self._result.reasons[row.pk] = row, bump.reason
        return bump.prices

    def _speed_up(self, row: Transaction, attempts: Sequence[Attempt]) -> Unsigned | None:
        """Return the payload of the newest attempt at a requested price, or None until it is known and allowed."""
        work = self._work
        if work.budget and (refusal := work.budget.price_refusal(row)):
            self._result.reasons[row.pk] = row, f"Its price is not raised. {refusal}"
            return None
        bump = bumping.requested_price(self._context, row, attempts, self._spendable(row, attempts[-1]))
        prices = bump and self._allowed(row, bump)
        return self._bump(row, attempts, prices) if prices else None

    def _replace(self, row: Transaction, attempts: Sequence[Attempt]) -> Unsigned | None:
        """Return the new payload of a row, or None while it cannot be sent; nodes may still have the one before."""
        work, last = self._work, attempts[-1]
        is_unreachable = routing.is_private(row, work.relayer.policies) and not work.has_private_nodes
        if work.relayer.paused or is_unreachable:
            reason = "the relayer is paused" if work.relayer.paused else routing.NO_PRIVATE_NODES
            self._result.reasons[row.pk] = row, NOT_REPLACED.format(f"{reason}.")
            return None
        bump = bumping.requested_price(self._context, row, attempts)
        prices = bump and self._allowed(row, bump)
        if not prices:
            return None
        planned = planning.plan_replacement(self._context, row, prices, self._account(work.cost_of_others(row)))
        reason = planned if isinstance(planned, str) else self._refusal(row, planned)
        if isinstance(planned, str) or reason:
            self._result.reasons[row.pk] = row, NOT_REPLACED.format(reason)
            return None
        draft = self._draft(row, last.nonce, planned.gas_limit, prices)
        since = self._private_since(row, Attempt.Purpose.REPLACE, attempts)
        return Unsigned(row, Attempt.Purpose.REPLACE, draft, planned.max_cost, since, planned.noop_extra)

    def _spendable(self, row: Transaction, last: Attempt) -> int:
        """Return what another attempt of a row may cost more than its newest one; no-ops may use the reserve."""
        reserve = 0 if last.purpose in NOOPS else self._context.sender.reserve
        return self._context.account.balance - reserve - self._work.cost_of_others(row) - int(last.max_cost_text)

    def _account(self, in_flight_cost: int, room: int = 0) -> planning.Account:
        work = self._work
        return planning.Account(
            balance=self._context.account.balance,
            in_flight_cost=in_flight_cost,
            room=room,
            has_unmined=bool(work.in_flight),
            block=work.lane.chain_block or 0,
            first_pending=work.first_pending,
        )

    def _gives_up(self, row: Transaction, last: Attempt, bump: bumping.Bump | None) -> bool:
        """Have a row expire that blocks the others and cannot be mined; return whether it is one."""
        work = self._work
        others_wait = len(work.in_flight) > 1 or bool(work.due)
        if row is not work.in_flight[0] or row.kind != Transaction.Kind.REQUEST:
            return False
        reason = bumping.blocking_reason(row, last, bump, others_wait, work.lane.head_since, work.now)
        if reason:
            _, why = self._result.reasons.pop(row.pk, (row, ""))
            self._result.actions.append((row, Transaction.Action.EXPIRE, f"{reason} {why}".rstrip()))
        return bool(reason)

    def _private_since(
        self, row: Transaction | None, purpose: Attempt.Purpose, attempts: Sequence[Attempt]
    ) -> int | None:
        work, relayer, read = self._work, self._work.relayer, self._context.account.block
        highest = chains.plausible_head(work.lane.watch, work.network, work.now)
        # Too low a block would have private transactions go to public nodes too early, too high a one never.
        believed = min(each for each in (read, highest) if each is not None) if read is not None else 0
        block = max(believed, routing.head_block(work.lane) or 0)
        return routing.private_since(purpose, row, relayer.policies, attempts, block, relayer.private_fallback_blocks)

    def _bump(self, row: Transaction, attempts: Sequence[Attempt], prices: Prices) -> Unsigned | None:
        last = attempts[-1]
        if last.purpose in NOOPS:
            draft, purpose = self._empty_draft(last.nonce, last.gas_limit, prices), Attempt.Purpose(last.purpose)
        else:
            draft, purpose = self._draft(row, last.nonce, last.gas_limit, prices), Attempt.Purpose.BUMP
        cost, extra, price = pricing.cost_after(last, prices), 0, pricing.maximum(prices)
        budget, gas_budget = self._work.budget, self._context.gas_budget(row)
        if budget and gas_budget and last.purpose not in NOOPS:
            # Whatever the market is now: without a bump, a no-op would have to pay it.
            gas = self._context.noop_gas()
            extra = max(0, gas * pricing.bumped(price) - last.gas_limit * price)
            if budget.exceeds_gas(row, cost - draft.value + extra):
                # Less was reserved for the attempt before than a no-op costs now.
                self._result.reasons[row.pk] = row, f"Its price is not raised, because of {gas_budget.words}."
                return None
        if budget:
            budget.spend_gas(row, cost - draft.value + extra)
        since = self._private_since(row, purpose, attempts)
        return Unsigned(row, purpose, draft, cost, since, extra)

    def _refusal(self, row: Transaction, planned: Send) -> str:
        """Return the spending rule that does not allow a replacement, or ""."""
        budget, gas_cost = self._work.budget, planned.max_cost - row.value + planned.noop_extra
        return (budget.refusal(row) or budget.shortage(row, gas_cost)) if budget else ""

    def close_unused(self, nonces: Sequence[int]) -> list[Unsigned]:
        """Return no-ops for nonces that no row has; those of a seal as far as the balance covers them."""
        drafted = [self._noop(None, Attempt.Purpose.GAP, nonce, []) for nonce in nonces]
        noops, lane = [each for each in drafted if each is not None], self._work.lane
        spendable = self._context.account.balance - self._work.in_flight_cost
        for number, each in enumerate(noops):
            if spendable < each.max_cost and each.draft.nonce >= (lane.next_nonce or 0):
                left = (lane.seal_below or 0) - each.draft.nonce
                missing = left * each.max_cost - spendable
                words = f"{coins(missing, self._work.network)} missing"
                self.missing = MissingFunds(f"{words} to close {left} nonces after lost commits.", missing)
                return noops[:number]
            spendable -= each.max_cost
        return noops

    def _noop(
        self, row: Transaction | None, purpose: Attempt.Purpose, nonce: int, attempts: Sequence[Attempt]
    ) -> Unsigned | None:
        """Return a no-op, or None while its gas or price cannot be read: it is drafted in a later turn."""
        try:
            chosen = int(row.noop_price_text) if row is not None and row.noop_price_text else None
            gas, prices = bumping.price_noop(self._context, attempts, chosen=chosen)
        except ChainFault:
            return None
        since = self._private_since(row, purpose, attempts)
        return Unsigned(row, purpose, self._empty_draft(nonce, gas, prices), gas * pricing.maximum(prices), since)

    def plan(self, rows: Sequence[Transaction]) -> list[Unsigned]:
        """Return attempts for pending rows with tentative nonces; rows that wait or are closed go to the result."""
        if not rows:
            return []
        work, found = self._work, self._context.account
        next_nonce = work.lane.next_nonce
        assert next_nonce is not None
        # A count above means that the account is used elsewhere: the watch holds the lane.
        is_ours = found.count <= next_nonce and found.pending_count <= max(next_nonce, work.lane.accepted_below or 0)
        room = max(0, work.window - (next_nonce - found.count)) if is_ours else 0
        account = self._account(work.in_flight_cost, room)
        unsigned: list[Unsigned] = []
        for each in planning.plan(self._context, rows, account):
            if isinstance(each, Send):
                self._planned_cost += each.max_cost
                draft = self._draft(each.row, next_nonce, each.gas_limit, each.prices)
                since = self._private_since(each.row, Attempt.Purpose.SEND, [])
                unsigned.append(Unsigned(each.row, Attempt.Purpose.SEND, draft, each.max_cost, since, each.noop_extra))
                next_nonce += 1
            elif isinstance(each, Wait):
                self._result.waits.append(each)
            else:
                self._result.closings.append(each)
        self.is_full = len(unsigned) >= room
        return unsigned

    def missing_funds(self, others: Sequence[str | None]) -> MissingFunds | None:
        """Return what all rows that wait for funds need, with the costs of those that this turn does not plan."""
        waiting = [each.missing for each in self._result.waits if each.missing]
        known = [int(text) for text in others[:MAX_WAITING] if text]
        return planning.missing_funds(
            self._context.sender,
            self._context.account.balance,
            self._work.in_flight_cost + self._planned_cost,
            [*(each.cost for each in waiting), *known],
            is_minimum=len(known) < len(others),
        ) or next(iter(waiting), None)

    def _draft(self, row: Transaction, nonce: int, gas: int, prices: Prices) -> Draft:
        return Draft(self._work.lane.chain_id, nonce, row.to, row.value, bytes(row.data), gas, prices)

    def _empty_draft(self, nonce: int, gas: int, prices: Prices) -> Draft:
        lane = self._work.lane
        return Draft(lane.chain_id, nonce, lane.address, 0, b"", gas, prices)


def is_expiring(row: Transaction, now: datetime) -> bool:
    """Return whether the turn requests a no-op for a row: nothing else is signed for it any more."""
    return row.kind == Transaction.Kind.REQUEST and row.valid_until <= now and not row.is_ending
