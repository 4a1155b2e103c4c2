"""The rows of a lane that a turn works on, read once at its beginning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Min, Q

from chain.networks import Network
from chain.nodes import Node
from relayer_service.storage.clock import database_now
from relayers.models import Relayer
from transactions import restores
from transactions.lanes import gate
from transactions.models import IS_IN_FLIGHT, IS_PENDING, Attempt, Lane, Transaction
from transactions.networks import network_of
from transactions.reserves import in_flight_costs
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
    # The maximum cost of each of them, and of others that the balance does not include, by primary key.
    costs: dict[int, int]
    # Pending rows that are due: expired ones first, then in the order in which they became due.
    due: list[Transaction]
    # Final rows whose nonces a deep reorg has made unused again, each with its mined attempt.
    removed: list[Transaction] = field(default_factory=list)
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
        """Whether requests may get a nonce: neither paused, disabled nor held. The commit checks the hold again."""
        is_enabled = not self.relayer.paused and not self.relayer.system_disabled
        return is_enabled and not self.lane.holds and self.lane.next_nonce is not None

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


def load(lane: Lane) -> Work | None:
    """Return the work of a lane, or None if its lease was lost or it has no relayer. Nothing is cached."""
    rows = Lane.objects.held([lane]).select_related("relayer__signer", "relayer__notification", "watch")
    found: Lane | None = rows.first()
    if found is None or found.relayer is None:
        return None
    if restores.check(found):
        return load(lane)
    now = database_now()
    open_rows = Transaction.objects.filter(lane=found).select_related("last_attempt")
    in_flight = open_rows.filter(IS_IN_FLIGHT, epoch=found.epoch).order_by("nonce")
    pending, is_due, has_expired = open_rows.filter(IS_PENDING), Q(due_at__lte=now), Q(valid_until__lte=now)
    # Expired ones first: they need no room. The others in the order of their index.
    due = list(pending.filter(has_expired).order_by("valid_until")[:BATCH])
    due += pending.filter(is_due, ~has_expired).order_by("due_at", "sequence")[: BATCH - len(due)]
    rest = pending.aggregate(first=Min("sequence"), next_due=Min("due_at", filter=~is_due & ~has_expired))
    sent = list(in_flight)
    # The chain waits for a nonce that no row in flight has.
    has_removed = (found.next_nonce or 0) - (found.chain_nonce or 0) > len(sent)
    return Work(
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
        first_pending=rest["first"],
        next_due=rest["next_due"],
    )


def load_attempts(work: Work, rows: list[Transaction]) -> None:
    nonces = {row.pk: row.nonce for row in rows}
    for pk in nonces:
        work.attempts.setdefault(pk, [])
    for attempt in Attempt.objects.filter(transaction__in=rows).order_by("number"):
        if attempt.epoch == work.lane.epoch and attempt.nonce == nonces[attempt.transaction_id]:
            work.attempts[attempt.transaction_id].append(attempt)


def load_budget(work: Work, rows: Sequence[Transaction]) -> None:
    """Read the spending rules of rows, and what is used of their limits. The commit checks both again."""
    work.budget = Budget(work.relayer, rows, work.now, lock=False)
