"""Drop what only releases before 0.1 read and wrote, and the triggers that kept it up to date.

Columns moved to the health of relayers, statistics of nodes to the counts of calls; searches have indexes. A new
database has none of it.
"""

from typing import Any

from django.db import migrations

from relayer_service.storage.counting import CountRows

COLUMNS = [
    "balance_at", "balance_hours", "balance_is_low", "balance_text", "checked_at", "disabled_reason_details",
    "disabled_reason_type", "due_at", "failed_checks", "failing_since", "good_checks", "lease",
    "leased_until", "low_since", "minimum_hours", "nonce", "outflow_days", "runway_is_short",
    "system_disabled",
]
TRIGGERS = ["relayer_added", "relayer_changed", "relayer_deleted", "health_changed"]
SEARCHES = ["notification_search", "notification_url_search", "relayer_search", "signer_search"]
POSTGRESQL = [
    *(f"DROP FUNCTION IF EXISTS relayers_{name} CASCADE" for name in TRIGGERS),
    *(f"DROP FUNCTION IF EXISTS {name}_note CASCADE" for name in SEARCHES),
    *(f"DROP TABLE IF EXISTS {name}" for name in SEARCHES),
    "ALTER TABLE relayers_relayer " + ", ".join(f"DROP COLUMN IF EXISTS {name}" for name in COLUMNS),
]


def drop(apps: Any, schema_editor: Any) -> None:
    vendor = schema_editor.connection.vendor
    for statement in POSTGRESQL if vendor == "postgresql" else [f"DROP TRIGGER IF EXISTS {name}" for name in TRIGGERS]:
        schema_editor.execute(statement)
    schema_editor.execute("DROP TABLE IF EXISTS relayers_nodecalls")


class RemakeRelayers(CountRows):
    """Remakes the table on SQLite with the columns of the model alone, and then the triggers that count its rows."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor == "sqlite":
            schema_editor._remake_table(to_state.apps.get_model(app_label, self.model_name))
            super().database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(self, *args: Any) -> None: ...

    def describe(self) -> str:
        return "Remake the table of relayers on SQLite"


class Migration(migrations.Migration):

    dependencies = [
        ('notifications', '0019_search_by_parts'),
        ('relayers', '0031_search_by_parts'),
        ('signers', '0007_search_by_parts'),
    ]

    operations = [
        migrations.RunPython(drop, migrations.RunPython.noop),
        RemakeRelayers('Relayer'),
    ]
