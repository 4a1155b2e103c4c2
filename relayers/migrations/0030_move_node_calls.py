"""Copy the statistics of nodes, and forget their table, which stays for the last release; the next one drops it."""

from django.db import migrations

DURATIONS = (
    "up_to_5_ms, up_to_10_ms, up_to_25_ms, up_to_50_ms, up_to_100_ms, up_to_250_ms, up_to_500_ms, "
    "up_to_1000_ms, up_to_2500_ms, up_to_5000_ms, above_5000_ms"
)
# The table does not say how long those calls took that failed: all durations are with the others.
COPY_ANSWERED = f"""
INSERT INTO relayer_service_callcount
(kind, subject, start, method, outcome, calls, slowest_milliseconds, last_at, head, head_at, last_fault, {DURATIONS})
SELECT 'node', node, slot, '', 'ok', calls - failed, slowest_milliseconds, answered_at, head, head_at, '',
{", ".join(f"COALESCE({name}, 0)" for name in DURATIONS.split(", "))}
FROM relayers_nodecalls WHERE TRUE ON CONFLICT DO NOTHING
"""
COPY_FAILED = f"""
INSERT INTO relayer_service_callcount
(kind, subject, start, method, outcome, calls, slowest_milliseconds, last_at, last_fault, {DURATIONS})
SELECT 'node', node, slot, '', 'failed', failed, 0, failed_at, last_fault, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
FROM relayers_nodecalls WHERE failed > 0 ON CONFLICT DO NOTHING
"""


class Migration(migrations.Migration):

    dependencies = [
        ('relayer_service', '0013_call_counts'),
        ('relayers', '0029_running_relayers'),
    ]

    operations = [
        migrations.RunSQL(COPY_ANSWERED, migrations.RunSQL.noop),
        migrations.RunSQL(COPY_FAILED, migrations.RunSQL.noop),
        migrations.SeparateDatabaseAndState(state_operations=[migrations.DeleteModel('NodeCalls')]),
    ]
