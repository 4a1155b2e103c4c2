from django.db import migrations

# Of each page: so many changed rows fit beside the old ones that a check updates no index (HOT). Pages that exist are
# not rewritten.
FILLFACTOR = 85


def set_fillfactor(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(f"ALTER TABLE relayers_relayer SET (fillfactor = {FILLFACTOR})")


def reset_fillfactor(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("ALTER TABLE relayers_relayer RESET (fillfactor)")


class Migration(migrations.Migration):

    dependencies = [
        ('relayers', '0004_balance_at_and_lease_end'),
    ]

    operations = [
        migrations.RunPython(set_fillfactor, reset_fillfactor),
    ]
