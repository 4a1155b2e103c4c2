"""What transactions can cost that a balance does not include yet: the part of it that is not free."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import F

from transactions.models import IN_FLIGHT, NOOPS, Attempt, Lane, Transaction

# Of the newest: a node that is further behind gets no nonce assigned, as no window is larger.
MAX_SETTLED = 1_000


def in_flight_costs(rows: Iterable[Transaction]) -> dict[int, int]:
    """Return the maximum that each row in flight can cost, by primary key, whichever of its attempts is mined.

    The newest attempt costs most, unless others have another payload: only then they are read.
    """
    newest = {row: row.last_attempt for row in rows if row.last_attempt is not None}
    costs = {row.pk: int(attempt.max_cost_text) for row, attempt in newest.items()}
    changed = [row.pk for row, attempt in newest.items() if row.payload_version > 1 or attempt.purpose in NOOPS]
    if changed:
        at_its_nonce = {"epoch": F("transaction__epoch"), "nonce": F("transaction__nonce")}
        attempts = Attempt.objects.filter(transaction__in=changed, **at_its_nonce)
        for pk, text in attempts.values_list("transaction", "max_cost_text"):
            costs[pk] = max(costs[pk], int(text))
    return costs


def settled_costs(lane: Lane, count: int) -> dict[int, int]:
    """Return the same of mined and final rows that the balance of a node with this transaction count does not have."""
    rows = Transaction.objects.filter(lane=lane, epoch=lane.epoch, nonce__gte=count).exclude(status__in=IN_FLIGHT)
    return in_flight_costs(rows.select_related("last_attempt").order_by("-nonce")[:MAX_SETTLED])
