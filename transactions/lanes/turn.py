"""One turn of a lane: end rows, recover, read, monitor what is in flight, plan, sign, commit, broadcast.

The order is what makes it safe: bytes are signed, committed with their nonce, and only then broadcast. A turn that is
interrupted anywhere leaves rows from which the next one continues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

from chain.errors import ChainFault
from relayer_service.storage.encryption import DecryptionError
from relayers.models import Relayer
from relayers.tasks import check_soon
from signers.backends.base import SignerError
from signers.signing import is_local
from transactions.lanes import gate, leasing, selecting
from transactions.lanes.broadcasting import Sent, broadcast
from transactions.lanes.commits import LeaseLost, NewAttempt, Result, commit
from transactions.lanes.drafting import Drafting, Unsigned
from transactions.lanes.outcomes import write_broadcasts
from transactions.lanes.prices.context import TurnContext, read_context
from transactions.lanes.prices.costs import settled_costs
from transactions.lanes.signing import Signed, sign
from transactions.lanes.threads import Threads
from transactions.lanes.work import BATCH, LaneSnapshot, load
from transactions.models import Attempt, Hold, Lane, Transaction, Waiting, amount_text
from transactions.records import routing
from transactions.records.crash_points import step
from transactions.records.routing import UNREADABLE_NODES, Route
from transactions.settlement import chains, watching

# Between turns of a lane with nonces in flight: about a block.
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 2.0, 12.0
# Between health checks that a lane requests: what disables its relayer may be another thing than its nodes.
CHECK_PAUSE = timedelta(seconds=15)


@dataclass(frozen=True)
class NextTurn:
    """When the next turn is due, and whether the lane may have nothing left to do."""

    seconds: float
    is_idle: bool = False
    # Whether a node or the signer failed: the pause grows until it works again.
    failed: bool = False
    # Whether another lane can take its place meanwhile: nothing is in flight, and nothing can be sent now.
    can_yield: bool = False
    # Whether requests wait for a nonce.
    has_pending: bool = True


class ChainReplaced(Exception):
    """A development node runs another chain than before: nothing is signed until the watch has handled that."""


class Turn:
    def __init__(self, lane: Lane, threads: Threads) -> None:
        self.lane = lane
        self._threads = threads
        self._work: LaneSnapshot
        # Of the lane, once it is read.
        self.relayer: Relayer | None = None

    async def take(self) -> NextTurn:
        """Take the turn; raise `LeaseLost` if another worker has the lane."""
        try:
            await self._load()
        except DecryptionError:
            return await self._wait_for(Waiting.NODES, UNREADABLE_NODES)
        step("claimed")
        if Hold.CHAIN in self._work.lane.holds:
            # Nothing that was signed for the former chain is broadcast on another one.
            return NextTurn(MAX_PAUSE_SECONDS)
        try:
            await self._end_rows()
            await self._broadcast_again()
            if self._work.lane.next_nonce is None:
                await self._look()
                await self._load()
            try:
                return await self._work_on_rows()
            except ChainReplaced:
                await self._look()
                return NextTurn(0)
        except ChainFault as fault:
            return await self._wait_for(Waiting.NODES, str(fault))

    async def _load(self) -> None:
        work = await self._threads.database(load, self.lane)
        if work is None:
            raise LeaseLost
        self._work, self.relayer = work, work.relayer

    async def _end_rows(self) -> None:
        """Close pending rows that end without a nonce, and record which ones in flight have expired.

        This needs no node. A row that cannot be closed now, as the lane is held, is tried once.
        """
        tried: set[int] = set()
        while True:
            result = Result(actions=selecting.expiring(self._work), closings=selecting.closings(self._work))
            if tried.issuperset(keys := {row.pk for row in result.rows()}):
                return
            tried |= keys
            await self._threads.database(commit, self.lane, result)
            await self._load()

    async def _broadcast_again(self) -> None:
        """Broadcast what may never have left, and what is due again: this depends on no price and no signer."""
        work = self._work
        if due := gate.due(work.lane, [*work.removed, *work.in_flight], work.network, work.now):
            await self._broadcast(due)
            await self._load()

    async def _look(self) -> None:
        await self._node(watching.look, [self._work.lane])

    async def _work_on_rows(self) -> NextTurn:
        work = self._work
        reviewed = selecting.due_for_review(work)
        unused, planned, waits = await self._threads.database(selecting.select, work, reviewed)
        result = Result(waits=waits)
        next_turn, is_full = self._next_turn(), False
        others: list[str | None] = []
        if work.lane.waiting:
            others = await self._threads.database(selecting.waiting_costs, work, planned)
        has_ended = bool(work.lane.waiting) and not (others and work.lane.waiting == Waiting.FUNDS)
        if reviewed or unused or planned or has_ended or (work.relayer.health.system_disabled and work.due):
            is_limited = work.budget is not None and work.budget.is_limited
            needs_noop = bool(unused) or is_limited or any(row.is_ending for row in reviewed)
            context = await self._read([*reviewed, *planned], needs_noop=needs_noop)
            step("read")
            await self._check_health()
            drafting = Drafting(work, context, result)
            unsigned = [*drafting.review(reviewed), *drafting.close_unused(unused), *drafting.plan(planned)]
            step("planned")
            is_full = drafting.is_full
            result.attempts, failure = await self._sign(unsigned)
            missing = drafting.missing or drafting.missing_funds(others)
            if failure:
                next_turn = replace(next_turn, failed=True)
                await self._set_waiting(Waiting.SIGNER, failure, missing and missing.amount)
            elif missing:
                await self._set_waiting(Waiting.FUNDS, missing.details, missing.amount)
            elif not (others and work.lane.waiting == Waiting.FUNDS):
                # Else they still wait, until they are planned again.
                await self._set_waiting("")
        attempts = await self._threads.database(commit, self.lane, result) if result else []
        await self._broadcast(attempts)
        has_changed = result.waits or result.closings or any(each.purpose == Attempt.Purpose.SEND for each in attempts)
        has_others = len(work.due) >= BATCH or len(planned) < len(work.due)
        if result.actions or (has_others and has_changed and not is_full):
            # Others may have room, and actions are carried out now. A turn that changed nothing is not repeated.
            return NextTurn(0)
        settled = len(result.closings) + sum(each.purpose == Attempt.Purpose.SEND for each in attempts)
        # Behind a full batch there may be others.
        has_pending = len(work.due) >= BATCH or len(work.due) > settled or work.next_due is not None
        return replace(next_turn, has_pending=has_pending)

    async def _read(self, rows: Sequence[Transaction], *, needs_noop: bool) -> TurnContext:
        """Read account, market and estimates in one batch; raise the fault of the account if it has one."""
        work = self._work
        known_genesis = work.lane.watch.genesis_hash if work.lane.watch else ""
        needs = {
            "needs_noop": needs_noop,
            "needs_genesis": bool(known_genesis) and chains.can_be_replaced(work.network),
        }
        read = partial(read_context, work.sender, rows, work.now, work.budget, **needs)
        context: TurnContext = await self._node(read)
        if context.genesis not in {known_genesis, ""}:
            raise ChainReplaced
        count = context.account.count
        if (work.lane.next_nonce or 0) - count > len(work.in_flight):
            # The node is behind: its balance is one from before rows were paid that are mined.
            work.costs |= await self._threads.database(settled_costs, work.lane, count)
        return context

    async def _sign(self, unsigned: Sequence[Unsigned]) -> tuple[list[NewAttempt], str]:
        """Return what was signed, and why the rest was not.

        Nonces must not have gaps, so after a failure the following tentative nonces are discarded: none was
        committed.
        """
        work, signer = self._work, self._work.relayer.signer
        calls: list[Callable[[], Signed]] = [
            partial(sign, signer, work.lane.address, each.draft, each.traceparent) for each in unsigned
        ]
        signed = await self._threads.signers(signer.pk, calls, is_local=is_local(signer))
        attempts: list[NewAttempt] = []
        failure = ""
        for each, made in zip(unsigned, signed, strict=True):
            if isinstance(made, SignerError):
                failure = str(made)
            elif isinstance(made, BaseException):
                raise made
            elif not (failure and each.gets_a_nonce):
                cost, extra = each.max_cost, each.noop_extra
                attempts.append(NewAttempt(each.row, each.purpose, made, cost, each.private_since, extra))
        step("signed")
        return attempts, failure

    async def _broadcast(self, attempts: Sequence[Attempt]) -> None:
        work = self._work
        head = routing.head_block(work.lane)
        for route, nodes in ((Route.PUBLIC, work.nodes), (Route.PRIVATE, work.private_nodes)):
            routed = gate.on_route(route, attempts, work.lane)
            if not routed:
                continue
            sent: list[Sent] = await self._threads.node(
                frozenset(nodes), broadcast, nodes, work.network, routed, route, work.traceparents
            )
            if sent:
                await self._threads.database(write_broadcasts, work.lane, sent, head)

    async def _check_health(self) -> None:
        """Have a disabled relayer checked, now that its account can be read: the health check enables it."""
        health, now = self._work.relayer.health, self._work.now
        if health.system_disabled and (health.checked_at is None or now - health.checked_at >= CHECK_PAUSE):
            await self._threads.database(check_soon, [health.pk])

    async def _wait_for(self, waiting: Waiting, details: str) -> NextTurn:
        await self._threads.database(leasing.set_waiting, self.lane, waiting, details)
        has_in_flight = self.relayer is not None and bool(self._work.in_flight)
        return NextTurn(MIN_PAUSE_SECONDS, failed=True, can_yield=not has_in_flight)

    async def _set_waiting(self, waiting: str, details: str = "", missing: int | None = None) -> None:
        lane = self._work.lane
        if (lane.waiting, lane.waiting_details, lane.missing_text) != (waiting, details, amount_text(missing)):
            await self._threads.database(leasing.set_waiting, lane, waiting, details, missing)

    async def _node(self, function: Callable[..., Any], *args: Any) -> Any:
        return await self._threads.node(frozenset(self._work.nodes), function, *args)

    def _next_turn(self) -> NextTurn:
        work = self._work
        if not work.in_flight and not work.due and work.next_due is None:
            return NextTurn(MAX_PAUSE_SECONDS, is_idle=True)
        pause = min(max(MIN_PAUSE_SECONDS, work.network.block_seconds), MAX_PAUSE_SECONDS)
        if work.next_due is not None:
            pause = min(pause, max(0.05, (work.next_due - work.now).total_seconds()))
        return NextTurn(pause, can_yield=not work.in_flight and not work.assigns_nonces)
