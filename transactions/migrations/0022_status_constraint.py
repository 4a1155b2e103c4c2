"""Open and final rows by `finished_at`, and room in each page for the next versions of its rows."""

from typing import Any

from django.db import migrations, models

from relayer_service.database.operations import AddConstraintNotValid

# In percent. Rows of lanes are few, and change with each turn.
FILL_FACTORS = {"transactions_transaction": 70, "transactions_attempt": 70, "transactions_lane": 50}
UNSUCCESSFUL = "{0}status IN ('failed', 'canceled', 'expired') AND {0}unsuccessful IS NULL"
# A trigger of SQLite cannot change a row before it is written, and so before the check.
SQLITE_TRIGGER = f"""
CREATE TRIGGER transaction_unsuccessful_{{0}} AFTER {{0}} ON transactions_transaction
WHEN {UNSUCCESSFUL.format("NEW.")} BEGIN
  UPDATE transactions_transaction SET unsuccessful = status WHERE sequence = NEW.sequence;
END
"""


def create_triggers(apps: Any, schema_editor: Any) -> None:
    """Fill `unsuccessful` for processes of the last release, also of what they wrote since 0021."""
    if schema_editor.connection.vendor == "sqlite":
        for event in ("insert", "update"):
            schema_editor.execute(SQLITE_TRIGGER.format(event))
        schema_editor.execute(
            f"UPDATE transactions_transaction SET unsuccessful = status WHERE {UNSUCCESSFUL.format('')}"
        )


def set_fill_factors(apps: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "postgresql":
        for table, percent in FILL_FACTORS.items():
            schema_editor.execute(f"ALTER TABLE {table} SET (fillfactor = {percent})")


class Migration(migrations.Migration):

    dependencies = [
        ('transactions', '0021_fill_unsuccessful'),
    ]

    operations = [
        AddConstraintNotValid(
            model_name='transaction',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('finished_at', None), ('status__in', ('pending', 'sent', 'submitted', 'mined')), ('unsuccessful', None)), models.Q(models.Q(('finished_at__isnull', False), ('unsuccessful', None)), ('status', 'confirmed')), models.Q(('finished_at__isnull', False), ('status__in', ('failed', 'canceled', 'expired')), ('unsuccessful', None)), models.Q(('finished_at__isnull', False), ('status__in', ('failed', 'canceled', 'expired')), ('unsuccessful', models.F('status'))), _connector='OR'), name='transaction_status'),
        ),
        # Removing the constraint remakes the table, without them.
        migrations.RunPython(create_triggers, migrations.RunPython.noop),
        migrations.RunPython(set_fill_factors, migrations.RunPython.noop),
    ]
