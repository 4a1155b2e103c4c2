"""The rows of a lane that a turn works on, read once at its beginning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet, Subquery, UUIDField

from chain.networks import Network
from chain.nodes.failover import Node
from relayer_service.database.clock import DatabaseNow, note_time
from relayer_service.database.compiled import compiled
from relayers.models import Relayer
from transactions.lanes import gate
from transactions.lanes.prices.costs import in_flight_costs
from transactions.lanes.prices.market import Sender
from transactions.limits.budgets import Budget
from transactions.models import IS_IN_FLIGHT, IS_PENDING, Attempt, Lane, Transaction
from transactions.records.networks import network_of
from transactions.settlement.nonces import restores

# The maximum number of transactions that get a nonce in one turn.
BATCH = 16


@dataclass
class LaneSnapshot:
    lane: Lane
    relayer: Relayer
    network: Network
    nodes: list[Node]
    private_nodes: list[Node]
    now: datetime
    # Ascending by nonce, each with its newest attempt.
    in_flight: list[Transaction]
    # The maximum cost of each of them, and of others that the balance does not include, by primary key.
    costs: dict[int, int]
    # Pending rows that are due: expired ones first, then in the order in which they became due.
    due: list[Transaction]
    # Final rows whose nonces a deep reorg has made unused again, each with its mined attempt.
    removed: list[Transaction] = field(default_factory=list)
    # The first of all pending rows, due or not.
    first_pending: int | None = None
    # When the next pending row is due that is not now; empty if more rows are due than one turn considers.
    next_due: datetime | None = None
    # Whether requests may be repetitions of what was found on the chain.
    has_unclaimed: bool = False
    # All attempts by transaction, of the rows that `load_attempts` was called for.
    attempts: dict[int, list[Attempt]] = field(default_factory=dict)
    # What its rows may spend, of the rows that `load_budget` was called for.
    budget: Budget | None = None

    @property
    def sender(self) -> Sender:
        return Sender(self.network, self.relayer.policies, self.lane.address, self.nodes, self.relayer.reserve)

    @property
    def assigns_nonces(self) -> bool:
        """Whether requests may get a nonce: neither paused, disabled nor held. The commit checks the hold again."""
        is_enabled = not self.relayer.paused and not self.relayer.health.system_disabled
        return is_enabled and not self.lane.holds and self.lane.next_nonce is not None

    @property
    def room(self) -> int:
        """How many nonces can be assigned, by the count that the watch has found. The turn reads it again."""
        next_nonce, chain_nonce = self.lane.next_nonce or 0, self.lane.chain_nonce
        in_use = 0 if chain_nonce is None else next_nonce - chain_nonce
        return self.window - in_use

    @property
    def window(self) -> int:
        return self.lane.window or self.network.window

    @property
    def has_private_nodes(self) -> bool:
        return any(weight for _, weight in self.private_nodes)

    @property
    def in_flight_cost(self) -> int:
        return sum(self.costs.values())

    def cost_of_others(self, row: Transaction) -> int:
        """Return what the rows in flight can cost besides this one."""
        return self.in_flight_cost - self.costs.get(row.pk, 0)

    @property
    def traceparents(self) -> dict[int, str]:
        """The traces of its transactions, by primary key."""
        return {row.pk: row.traceparent for row in (*self.in_flight, *self.due) if row.traceparent}


@compiled(None, UUIDField())
def _held_lane(pk: int, lease: UUID) -> Any:
    pending = Transaction.objects.filter(IS_PENDING, lane=OuterRef("pk"))
    unclaimed = Transaction.objects.filter(lane=OuterRef("pk"), unclaimed_until__isnull=False)
    return (
        Lane.objects.filter(pk=pk, lease=lease)
        .select_related("relayer__signer", "relayer__health", "watch")
        .annotate(
            now=DatabaseNow(),
            first_pending=Subquery(pending.order_by("sequence").values("sequence")[:1]),
            has_in_flight=Exists(
                Transaction.objects.filter(IS_IN_FLIGHT, lane=OuterRef("pk"), epoch=OuterRef("epoch"))
            ),
            has_expired=Exists(pending.filter(valid_until__lte=DatabaseNow())),
            has_unclaimed=Exists(unclaimed),
        )
    )


@compiled()
def _in_flight(lane: int, epoch: int) -> QuerySet[Transaction]:
    rows = Transaction.objects.filter(IS_IN_FLIGHT, lane=lane, epoch=epoch)
    return rows.select_related("last_attempt").order_by("nonce")


@compiled()
def _pending(lane: int) -> QuerySet[Transaction]:
    rows = Transaction.objects.filter(IS_PENDING, lane=lane).select_related("last_attempt")
    # One more than a turn considers, which may be the next one that is due.
    return rows.order_by("due_at", "sequence")[: BATCH + 1]


def _expired(lane: int) -> list[Transaction]:
    rows = Transaction.objects.filter(IS_PENDING, lane=lane, valid_until__lte=DatabaseNow())
    return list(rows.select_related("last_attempt").order_by("valid_until")[:BATCH])


def load(lane: Lane) -> LaneSnapshot | None:
    """Return the work of a lane, or None if its lease was lost or it has no relayer. Nothing is cached."""
    found: Any = next(iter(_held_lane(lane.pk, lane.lease)), None)
    if found is None or found.relayer is None:
        return None
    note_time(found.now)
    if restores.check(found):
        return load(lane)
    now, sent = found.now, _in_flight(found.pk, found.epoch) if found.has_in_flight else []
    # Expired ones first: they need no room. The others in the order of their index.
    due = _expired(found.pk) if found.has_expired else []
    pending = [] if found.first_pending is None else _pending(found.pk)
    unexpired = [row for row in pending if row.valid_until > now]
    due += [row for row in unexpired if row.due_at <= now][: BATCH - len(due)]
    # The chain waits for a nonce that no row in flight has.
    has_removed = (found.next_nonce or 0) - (found.chain_nonce or 0) > len(sent)
    return LaneSnapshot(
        lane=found,
        relayer=found.relayer,
        network=network_of(found.relayer),
        nodes=found.relayer.node_urls(),
        private_nodes=found.relayer.private_node_urls(),
        now=now,
        in_flight=sent,
        costs=in_flight_costs(sent),
        due=due,
        removed=list(gate.removed_rows(found)) if has_removed else [],
        first_pending=found.first_pending,
        next_due=next((row.due_at for row in unexpired if row.due_at > now), None),
        has_unclaimed=found.has_unclaimed,
    )


def load_attempts(work: LaneSnapshot, rows: Sequence[Transaction]) -> None:
    nonces = {row.pk: row.nonce for row in rows}
    for pk in nonces:
        work.attempts.setdefault(pk, [])
    for attempt in Attempt.objects.filter(transaction__in=rows).order_by("number") if rows else ():
        if attempt.epoch == work.lane.epoch and attempt.nonce == nonces[attempt.transaction_id]:
            work.attempts[attempt.transaction_id].append(attempt)


def load_budget(work: LaneSnapshot, rows: Sequence[Transaction]) -> None:
    """Read the spending rules of rows, and what is used of their limits. The commit checks both again."""
    work.budget = Budget(work.relayer, rows, work.now, lock=False)
