"""Decisions of staff about requests that may be repetitions of what was executed before commits were lost."""

from django.db import transaction

from relayer_service.background.tasks import push
from transactions.lanes.wake import wake_lane
from transactions.models import IS_PENDING, Lane, Transaction
from transactions.settlement.nonces import adoption


def send_request(row: Transaction, reason: str) -> bool:
    """Decide that a request is a new one, and have its lane send it; return False if it was decided already."""
    with transaction.atomic():
        done = adoption.release_claim(row, reason)
        if done:
            push(wake_lane, row.lane_id)
    return done


def waiting_requests(identifiers: list[str] | None = None) -> list[tuple[Transaction, Transaction]]:
    """Return the requests that staff must decide about, in the order of acceptance, with what each may repeat."""
    lanes = Lane.objects.filter(transactions__unclaimed_until__isnull=False).distinct().order_by("pk")
    pairs = []
    for lane in lanes:
        rows = Transaction.objects.filter(IS_PENDING, lane=lane, claim_released=False)
        if identifiers is not None:
            rows = rows.filter(identifier__in=identifiers)
        pending = list(rows.select_related("lane", "relayer").order_by("sequence"))
        claims = adoption.find_claims(pending)
        pairs += [(row, claims[row.pk]) for row in pending if row.pk in claims]
    return pairs
