"""Copy the counts of calls hour by hour, and forget their tables, which stay for the last release; the next drops them.

What the last release counts after its hour was copied is not shown.
"""

from datetime import timedelta
from typing import Any

from django.db import migrations
from django.utils import timezone

# As long as counts are kept.
HOURS = 31 * 24
HOUR = timedelta(hours=1)
DURATIONS = [
    "up_to_5_ms", "up_to_10_ms", "up_to_25_ms", "up_to_50_ms", "up_to_100_ms", "up_to_250_ms", "up_to_500_ms",
    "up_to_1000_ms", "up_to_2500_ms", "up_to_5000_ms", "above_5000_ms",
]
INSERT = f"""
INSERT INTO relayer_service_callcount
(kind, subject, start, method, outcome, calls, slowest_milliseconds, last_fault, {", ".join(DURATIONS)})
"""
COPY_MINUTES = f"""{INSERT}
SELECT 'relayer', CAST(relayer_id AS text), %s, method, outcome, SUM(calls), MAX(slowest_milliseconds), '',
{", ".join(f"SUM(COALESCE({name}, 0))" for name in DURATIONS)}
FROM rpc_callcount WHERE minute >= %s AND minute < %s GROUP BY relayer_id, method, outcome
ON CONFLICT DO NOTHING
"""
COPY_HOUR = f"""{INSERT}
SELECT 'relayers', '', hour, '', outcome, calls, slowest_milliseconds, '',
{", ".join(f"COALESCE({name}, 0)" for name in DURATIONS)}
FROM rpc_callhour WHERE hour = %s
ON CONFLICT DO NOTHING
"""


def copy(apps: Any, schema_editor: Any) -> None:
    connection = schema_editor.connection
    last = timezone.now().replace(minute=0, second=0, microsecond=0)
    with connection.cursor() as cursor:
        for ago in range(HOURS + 1):
            start, end = (
                connection.ops.adapt_datetimefield_value(moment) for moment in (last - ago * HOUR, last - (ago - 1) * HOUR)
            )
            cursor.execute(COPY_MINUTES, [start, start, end])
            cursor.execute(COPY_HOUR, [start])
        if connection.vendor == "postgresql":
            cursor.execute("ANALYZE relayer_service_callcount")


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('relayer_service', '0013_call_counts'),
        ('rpc', '0008_counts_without_relayer'),
    ]

    operations = [
        migrations.RunPython(copy, migrations.RunPython.noop),
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.DeleteModel('CallHour'), migrations.DeleteModel('CallCount')]
        ),
    ]
