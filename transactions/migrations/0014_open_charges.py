"""Charges of transactions that are not mined yet count as open, whatever their age."""

from typing import Any

from django.db import migrations, transaction
from django.db.models import Q
from django.utils import timezone

SECONDS_PER_HOUR = 3600
OPEN_HOUR = 2**31 - 1
UNMINED = ["pending", "sent", "submitted"]


def open_charges(apps: Any, schema_editor: Any) -> None:
    """Open the charges of unmined transactions, lane by lane; processes of the last release wait only for that."""
    _move(apps, schema_editor.connection.alias, Q(transaction__status__in=UNMINED), OPEN_HOUR)


def date_charges(apps: Any, schema_editor: Any) -> None:
    hour = int(timezone.now().timestamp()) // SECONDS_PER_HOUR
    _move(apps, schema_editor.connection.alias, Q(hour=OPEN_HOUR), hour)


def _move(apps: Any, alias: str, chosen: Q, hour: int) -> None:
    lanes, rows, charges, limits = (
        apps.get_model(app, name).objects.using(alias)
        for app, name in (
            ("transactions", "Lane"),
            ("transactions", "Transaction"),
            ("transactions", "Charge"),
            ("spending", "SpendingLimit"),
        )
    )
    charges = charges.filter(chosen).exclude(hour=hour)
    for lane in sorted(set(charges.values_list("transaction__lane", flat=True))):
        with transaction.atomic(using=alias):
            # In the order of all writers: the lane, its transactions, the limits.
            lanes.select_for_update(no_key=True).get(pk=lane)
            found = charges.filter(transaction__lane=lane)
            locked = rows.select_for_update(no_key=True).filter(pk__in=found.values("transaction")).order_by("pk")
            moved = list(found.filter(transaction__in=[row.pk for row in locked.only("pk")]))
            counted = limits.select_for_update(no_key=True).filter(pk__in={charge.limit_id for charge in moved})
            by_key = {limit.pk: limit for limit in counted.order_by("pk")}
            for charge in moved:
                hours, amount = by_key[charge.limit_id].hours, int(charge.amount_text)
                _add(hours, charge.hour, -amount)
                _add(hours, hour, amount)
                charge.hour = hour
            charges.bulk_update(moved, ["hour"], batch_size=500)
            limits.bulk_update(by_key.values(), ["hours"])


def _add(hours: dict[str, str], hour: int, amount: int) -> None:
    # An hour that is too old to count may have been dropped already.
    total = max(0, int(hours.pop(str(hour), "0")) + amount)
    if total:
        hours[str(hour)] = str(total)


class Migration(migrations.Migration):
    # A transaction for each lane, so that nothing waits long.
    atomic = False

    dependencies = [
        ("spending", "0001_initial"),
        ("transactions", "0013_rejections"),
    ]

    operations = [migrations.RunPython(open_charges, date_charges)]
