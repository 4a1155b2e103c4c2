"""Copy the health of all relayers, in batches: no other process waits for long.

What is there already is newer: the triggers of 0026 have written it.
"""

from typing import Any

from django.db import migrations
from django.db.models import Max, Min

COLUMNS = (
    "due_at", "network", "system_disabled", "disabled_reason_type", "disabled_reason_details", "checked_at", "nonce",
    "balance_text", "balance_at", "balance_is_low", "balance_hours", "minimum_hours", "outflow_days", "runway_is_short",
    "failed_checks", "good_checks", "failing_since", "low_since",
)
BATCH_SIZE = 1_000
FILL = """
INSERT INTO relayers_relayerhealth (relayer_id, {columns})
SELECT sequence, {columns} FROM relayers_relayer WHERE sequence >= %s AND sequence < %s ON CONFLICT DO NOTHING
""".format(columns=", ".join(COLUMNS))


def fill(apps: Any, schema_editor: Any) -> None:
    rows = apps.get_model("relayers", "Relayer")._base_manager.using(schema_editor.connection.alias)
    found = rows.aggregate(first=Min("sequence"), last=Max("sequence"))
    with schema_editor.connection.cursor() as cursor:
        for start in range(found["first"] or 0, (found["last"] or -1) + 1, BATCH_SIZE):
            cursor.execute(FILL, [start, start + BATCH_SIZE])
        if schema_editor.connection.vendor == "postgresql":
            cursor.execute("ANALYZE relayers_relayerhealth")


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('relayers', '0026_copy_health'),
    ]

    operations = [
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
