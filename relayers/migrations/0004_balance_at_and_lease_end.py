from django.db import migrations, models

import relayer_service.database.clock


class Migration(migrations.Migration):

    dependencies = [
        ('relayers', '0003_console'),
    ]

    operations = [
        migrations.AddField(
            model_name='relayer',
            name='balance_at',
            field=models.DateTimeField(editable=False, help_text='When the balance was read; a check that cannot read it keeps both.', null=True),
        ),
        migrations.AddField(
            model_name='relayer',
            name='leased_until',
            field=models.DateTimeField(editable=False, null=True),
        ),
        # The default is not one of the column: SQLite would rebuild the table for nothing.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name='relayer',
                    name='due_at',
                    field=models.DateTimeField(db_index=True, default=relayer_service.database.clock.DatabaseNow, editable=False, null=True),
                ),
            ],
        ),
    ]
