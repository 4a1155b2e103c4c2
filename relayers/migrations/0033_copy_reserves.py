"""Copy the minimum balance of relayers that fund others to their reserve: it was what they kept.

Safe to repeat. What staff have set meanwhile stays.
"""

from typing import Any

from django.db import migrations

BATCH_SIZE = 1_000


def copy(apps: Any, schema_editor: Any) -> None:
    rows = apps.get_model("relayers", "Relayer")._base_manager.using(schema_editor.connection.alias)
    funding = rows.filter(funding_relayer__isnull=False).order_by("funding_relayer").values("funding_relayer")
    last = 0
    while batch := list(
        rows.filter(pk__in=funding, pk__gt=last).order_by("pk").values_list("pk", "policies")[:BATCH_SIZE]
    ):
        for pk, policies in batch:
            if policies.get("min_balance"):
                rows.filter(pk=pk, reserve_text=None).update(reserve_text=str(policies["min_balance"]))
        last = batch[-1][0]


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('relayers', '0032_reserve'),
    ]

    operations = [
        migrations.RunPython(copy, migrations.RunPython.noop),
    ]
