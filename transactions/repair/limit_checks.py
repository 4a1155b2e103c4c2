"""The invariants of spending limits: each is the sum of its charges, and what is final is not open."""

from collections import Counter
from collections.abc import Sequence

from django.db import transaction
from django.db.models import Q

from relayer_service.database.clock import database_now
from spending.models import SpendingLimit
from transactions.changes import locking_rows
from transactions.limits.status_changes import settle
from transactions.limits.windows import OPEN_HOUR, first_counted, hour_of
from transactions.models import FINAL, Charge, Lane, Transaction

OPEN_AND_FINAL = Q(hour=OPEN_HOUR, transaction__status__in=FINAL) & ~Q(amount_text="0")


def limit_violations(lanes: Sequence[Lane]) -> list[str]:
    """Return the limits of lanes' relayers and tokens that are not the sums of their charges, or open for final rows.

    A transaction also counts on the limits of a token that requested it before another one replaced it. For all lanes
    at once: the tables have no index of lanes, and lanes share limits.
    """
    rows = Transaction.objects.filter(lane__in=lanes)
    policies = Q(policy__in=rows.filter(token_spending__isnull=False).values("token_spending"))
    policies |= Q(policy__in=[lane.relayer.spending_id for lane in lanes if lane.relayer])
    charged = Q(pk__in=Charge.objects.filter(transaction__lane__in=lanes).values("limit"))
    keys = SpendingLimit.objects.filter(policies | charged).order_by("pk").values_list("pk", flat=True)
    return [text for key in list(keys) for text in _violations(key)]


@transaction.atomic
def _violations(key: int) -> list[str]:
    # Whoever writes a charge has locked its limit.
    limit = SpendingLimit.objects.select_for_update(no_key=True).filter(pk=key).first()
    if limit is None:
        return []
    # The oldest hour that counts may have lost charges of transactions that were deleted.
    first = first_counted(hour_of(database_now())) + 1
    sums: Counter[int] = Counter()
    for hour, amount in Charge.objects.filter(limit=limit, hour__gte=first).values_list("hour", "amount_text"):
        sums[hour] += int(amount)
    counted = {int(hour): int(amount) for hour, amount in limit.hours.items() if int(hour) >= first}
    final = Charge.objects.filter(OPEN_AND_FINAL, limit=limit).select_related("transaction")
    return [f"transaction {each.transaction} is final, and open on the limit {limit}" for each in final] + [
        f"the limit {limit} counts {counted.get(hour, 0)} in hour {hour}, and its charges are {sums[hour]}"
        for hour in sorted(sums.keys() | counted)
        if counted.get(hour, 0) != sums[hour]
    ]


@transaction.atomic
def settle_final() -> None:
    """Date what final transactions count as open: releases before 0.1.0 left them so."""
    charges = Charge.objects.filter(OPEN_AND_FINAL, limit__hours__has_key=str(OPEN_HOUR))
    settle(locking_rows().filter(pk__in=charges.values("transaction")), database_now())
