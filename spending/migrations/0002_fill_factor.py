"""Room in each page of limits, which change with each transaction, for the next versions of its rows."""

from typing import Any

from django.db import migrations


def set_fill_factor(apps: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("ALTER TABLE spending_spendinglimit SET (fillfactor = 50)")


class Migration(migrations.Migration):

    dependencies = [
        ('spending', '0001_initial'),
    ]

    operations = [
        migrations.RunPython(set_fill_factor, migrations.RunPython.noop),
    ]
