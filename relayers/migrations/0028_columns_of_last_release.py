"""Forget the columns that moved, which stay in the table for the last release; the next one drops them.

It drops the triggers of 0026 first: on SQLite, a table that a trigger of another one names cannot be remade.
"""

from django.db import migrations

INDEXES = [
    "relayer_active", "relayer_disabled", "relayer_low_balance", "relayer_unknown", "relayer_nodes_failing",
    "relayer_checked", "relayer_balance", "relayer_check_failures", "relayer_low_by_network",
    "relayer_used_up_soon", "relayer_other_address",
]
COLUMNS = [
    "balance_at", "balance_hours", "balance_is_low", "balance_text", "checked_at", "disabled_reason_details",
    "disabled_reason_type", "due_at", "failed_checks", "failing_since", "good_checks", "lease",
    "leased_until", "low_since", "minimum_hours", "nonce", "outflow_days", "runway_is_short",
    "system_disabled",
]


class Migration(migrations.Migration):

    dependencies = [
        ('relayers', '0027_fill_health'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveConstraint("relayer", "relayer_reason_while_disabled"),
                *(migrations.RemoveIndex("relayer", name) for name in INDEXES),
                *(migrations.RemoveField("relayer", name) for name in COLUMNS),
            ]
        ),
    ]
