"""Fill `unsuccessful` of the transactions that ended before, in batches: no other process waits for long.

When it is repeated after an interruption, it writes only the remaining rows.
"""

from typing import Any

from django.db import migrations
from django.db.models import F, Max, Min
from django.db.models.functions import Coalesce

UNSUCCESSFUL = ("failed", "canceled", "expired")
BATCH_SIZE = 1_000


def fill(apps: Any, schema_editor: Any) -> None:
    rows = apps.get_model("transactions", "Transaction")._base_manager.using(schema_editor.connection.alias)
    found = rows.aggregate(first=Min("sequence"), last=Max("sequence"))
    finished_at = Coalesce("finished_at", "mined_at", "created_at")
    for start in range(found["first"] or 0, (found["last"] or -1) + 1, BATCH_SIZE):
        batch = rows.filter(sequence__gte=start, sequence__lt=start + BATCH_SIZE)
        ended = batch.filter(status__in=UNSUCCESSFUL, unsuccessful=None)
        ended.update(unsuccessful=F("status"), finished_at=finished_at)
        batch.filter(status="confirmed", finished_at=None).update(finished_at=finished_at)


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('transactions', '0020_attempts_without_constraints'),
    ]

    operations = [
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
