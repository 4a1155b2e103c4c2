"""The rows of a lane that a turn works on, read once at its beginning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Case, Min, Q, When

from chain.networks import Network
from chain.nodes import Node
from relayer_service.storage.clock import DatabaseNow, database_now
from relayers.models import Relayer
from transactions import routing
from transactions.models import IN_FLIGHT, Attempt, Lane, Status, Transaction
from transactions.networks import network_of
from transactions.reserves import in_flight_costs
from transactions.routing import Route
from transactions.settlement import unsettled
from transactions.spending.budgets import Budget

# The maximum number of transactions that get a nonce in one turn.
BATCH = 16


@dataclass
class Work:
    lane: Lane
    relayer: Relayer
    network: Network
    nodes: list[Node]
    private_nodes: list[Node]
    now: datetime
    # Ascending by nonce, each with its newest attempt.
    in_flight: list[Transaction]
    # The maximum cost of each of them, by primary key.
    costs: dict[int, int]
    # Pending rows that are due, in the order of acceptance.
    due: list[Transaction]
    # Attempts of final rows whose nonces a deep reorg has made unused again.
    reverted: list[Attempt] = field(default_factory=list)
    # The first of all pending rows, due or not.
    first_pending: int | None = None
    # When the next pending row is due that is not now.
    next_due: datetime | None = None
    # All attempts by transaction, of the rows that `load_attempts` was called for.
    attempts: dict[int, list[Attempt]] = field(default_factory=dict)
    # What its rows may spend, of the rows that `load_budget` was called for.
    budget: Budget | None = None

    @property
    def assigns_nonces(self) -> bool:
        """Whether requests may get a nonce: neither paused nor held. The commit checks the hold again."""
        return not self.relayer.paused and not self.lane.holds and self.lane.next_nonce is not None

    @property
    def has_private_nodes(self) -> bool:
        return any(weight for _, weight in self.private_nodes)

    def route(self, attempt: Attempt) -> Route:
        """Return the nodes that an attempt goes to now."""
        return routing.choose(attempt, self.relayer.private_fallback_blocks, routing.head_block(self.lane))

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

    @property
    def newest_attempts(self) -> list[Attempt]:
        return [row.last_attempt for row in self.in_flight if row.last_attempt]


def load(lane: Lane) -> Work | None:
    """Return the work of a lane, or None if its lease was lost or it has no relayer. Nothing is cached."""
    rows = Lane.objects.held([lane]).select_related("relayer__signer", "relayer__notification", "watch")
    found: Lane | None = rows.first()
    if found is None or found.relayer is None:
        return None
    open_rows = Transaction.objects.filter(lane=found).select_related("last_attempt")
    in_flight = open_rows.filter(status__in=IN_FLIGHT, epoch=found.epoch).order_by("nonce")
    is_due = Q(due_at__lte=DatabaseNow()) | Q(valid_until__lte=DatabaseNow())
    pending = open_rows.filter(status=Status.PENDING)
    # Expired ones first: they need no room.
    is_expired = Case(When(valid_until__lte=DatabaseNow(), then=0), default=1)
    due = pending.filter(is_due).order_by(is_expired, "sequence")[:BATCH]
    rest = pending.aggregate(first=Min("sequence"), next_due=Min("due_at", filter=~is_due))
    sent = list(in_flight)
    return Work(
        lane=found,
        relayer=found.relayer,
        network=network_of(found.relayer),
        nodes=found.relayer.node_urls(),
        private_nodes=found.relayer.private_node_urls(),
        now=database_now(),
        in_flight=sent,
        costs=in_flight_costs(sent),
        due=list(due),
        reverted=_reverted(found, sent),
        first_pending=rest["first"],
        next_due=rest["next_due"],
    )


def _reverted(lane: Lane, in_flight: Sequence[Transaction]) -> list[Attempt]:
    """Return the attempts of final rows that a deep reorg has removed: the nonces above wait for theirs."""
    if (lane.next_nonce or 0) - (lane.chain_nonce or 0) <= len(in_flight):
        # No other row has a nonce that the chain waits for.
        return []
    return [row.mined_attempt for row in unsettled.removed_rows(lane) if row.mined_attempt]


def load_attempts(work: Work, rows: list[Transaction]) -> None:
    for row in rows:
        work.attempts.setdefault(row.pk, [])
    for attempt in Attempt.objects.filter(transaction__in=rows).order_by("number"):
        if attempt.epoch == work.lane.epoch and attempt.nonce == _nonce(rows, attempt):
            work.attempts[attempt.transaction_id].append(attempt)


def load_budget(work: Work, rows: Sequence[Transaction]) -> None:
    """Read the spending rules of rows, and what is used of their limits. The commit checks both again."""
    work.budget = Budget(work.relayer, rows, work.now, lock=False)


def _nonce(rows: list[Transaction], attempt: Attempt) -> int | None:
    return next(row.nonce for row in rows if row.pk == attempt.transaction_id)
