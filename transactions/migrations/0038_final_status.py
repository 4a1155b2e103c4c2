"""Require the final status of each transaction in `unsuccessful`, which a trigger wrote for releases before 0.1."""

from importlib import import_module
from typing import Any

from django.db import migrations, models

from relayer_service.database.operations import AddConstraintNotValid

create_metadata_triggers = import_module("transactions.migrations.0031_metadata_pairs").create_triggers


def drop_trigger(apps: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP FUNCTION IF EXISTS transactions_set_unsuccessful CASCADE")


def restore_triggers(apps: Any, schema_editor: Any) -> None:
    """Create those of the metadata again where SQLite has remade the table, for the constraint, without them."""
    if schema_editor.connection.vendor == "sqlite":
        create_metadata_triggers(apps, schema_editor)


class Migration(migrations.Migration):

    dependencies = [
        ('transactions', '0031_metadata_pairs'),
    ]

    operations = [
        migrations.RunPython(drop_trigger, restore_triggers),
        migrations.RemoveConstraint(model_name='transaction', name='transaction_status'),
        AddConstraintNotValid(
            model_name='transaction',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('finished_at', None), ('status__in', ('pending', 'sent', 'submitted', 'mined')), ('unsuccessful', None)), models.Q(models.Q(('finished_at__isnull', False), ('unsuccessful', None)), ('status', 'confirmed')), models.Q(('finished_at__isnull', False), ('status__in', ('failed', 'canceled', 'expired')), ('unsuccessful', models.F('status'))), _connector='OR'), name='transaction_status'),
        ),
        migrations.RunPython(restore_triggers, migrations.RunPython.noop),
    ]
