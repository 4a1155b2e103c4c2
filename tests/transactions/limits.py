"""Spending rules in tests: policies in the database, what is used of their limits, and hours that pass."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import F

from relayer_service.database.clock import database_now
from relayers.models import Relayer
from spending.models import SpendingLimit, SpendingPolicy
from spending.rules import validate_rules
from transactions.limits import windows
from transactions.models import Charge, Lane, Transaction
from transactions.repair.limit_checks import limit_violations


def policy(**rules: Any) -> SpendingPolicy:
    created: SpendingPolicy = SpendingPolicy.objects.create(rules=validate_rules(rules))
    return created


def limit_relayer(relayer: Relayer, **rules: Any) -> SpendingPolicy:
    """Set the rules of a relayer, which replace earlier ones."""
    if relayer.spending is None:
        relayer.spending = policy(**rules)
        relayer.save(update_fields=["spending"])
    else:
        relayer.spending.rules = validate_rules(rules)
        relayer.spending.save()
    return relayer.spending


def used(policy: SpendingPolicy, name: str = "value") -> int:
    """Return what counts on a limit now; it is the sum of its charges."""
    assert not limit_violations(list(Lane.objects.select_related("relayer")))
    limit = SpendingLimit.objects.filter(policy=policy, name=name).first()
    return windows.used(limit.hours, windows.hour_of(database_now())) if limit else 0


def let_hours_pass(hours: int) -> None:
    """Let everything have been mined and counted so many hours earlier."""
    for limit in SpendingLimit.objects.all():
        limit.hours = {
            hour if int(hour) == windows.OPEN_HOUR else str(int(hour) - hours): amount
            for hour, amount in limit.hours.items()
        }
        limit.save()
    Charge.objects.exclude(hour=windows.OPEN_HOUR).update(hour=F("hour") - hours)
    age = timedelta(hours=hours)
    Transaction.objects.update(mined_at=F("mined_at") - age, finished_at=F("finished_at") - age)
