"""What transactions in flight can cost: the part of a balance that is not free."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import F

from transactions.models import NOOPS, Attempt, Transaction


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
