"""Drop the foreign key of a table that only the last release uses: this one deletes relayers without their counts."""

import django.db.models.deletion
from django.db import migrations, models

# Counts of relayers that were deleted meanwhile.
REMOVE_ORPHANS = "DELETE FROM rpc_callcount WHERE relayer_id NOT IN (SELECT sequence FROM relayers_relayer)"


class Migration(migrations.Migration):

    dependencies = [
        ('rpc', '0007_call_durations'),
    ]

    operations = [
        migrations.AlterField(
            model_name='callcount',
            name='relayer',
            field=models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, related_name='call_counts', to='relayers.relayer'),
        ),
        migrations.RunSQL(migrations.RunSQL.noop, REMOVE_ORPHANS),
    ]
