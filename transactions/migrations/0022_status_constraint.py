"""Open and final rows by `finished_at`, and room in each page for the next versions of its rows."""

from typing import Any

from django.db import migrations, models

from relayer_service.storage.operations import AddConstraintNotValid

# In percent. Rows of lanes are few, and change with each turn.
FILL_FACTORS = {"transactions_transaction": 70, "transactions_attempt": 70, "transactions_lane": 50}


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
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('finished_at', None), ('status__in', ('pending', 'sent', 'submitted', 'mined')), ('unsuccessful', None)), models.Q(models.Q(('finished_at__isnull', False), ('unsuccessful', None)), ('status', 'confirmed')), models.Q(('finished_at__isnull', False), ('status__in', ('failed', 'canceled', 'expired')), ('unsuccessful', models.F('status'))), _connector='OR'), name='transaction_status'),
        ),
        migrations.RunPython(set_fill_factors, migrations.RunPython.noop),
    ]
