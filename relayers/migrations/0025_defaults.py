"""Defaults in the database: this release writes none of these columns, and the last one needs them."""

from django.db import migrations, models

from relayer_service.database.clock import DatabaseNow

REASONS = [('NonceSyncFailed', 'The nonce cannot be read from any node')]


class Migration(migrations.Migration):

    dependencies = [
        ('relayers', '0024_relayer_health'),
    ]

    operations = [
        migrations.AlterField(
            model_name='relayer',
            name='due_at',
            field=models.DateTimeField(db_default=DatabaseNow(), db_index=True, editable=False, null=True),
        ),
        migrations.AlterField(
            model_name='relayer',
            name='system_disabled',
            field=models.BooleanField(db_default=False, default=False, editable=False, help_text='Set by the health check.'),
        ),
        migrations.AlterField(
            model_name='relayer',
            name='disabled_reason_type',
            field=models.CharField(blank=True, choices=REASONS, db_default='', editable=False, max_length=32),
        ),
        migrations.AlterField(
            model_name='relayer',
            name='disabled_reason_details',
            field=models.TextField(blank=True, db_default='', editable=False),
        ),
        migrations.AlterField(
            model_name='relayer',
            name='balance_text',
            field=models.CharField(blank=True, db_default='', editable=False, max_length=78, verbose_name='balance'),
        ),
        migrations.AlterField(
            model_name='relayer',
            name='balance_is_low',
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.AlterField(
            model_name='relayer',
            name='failed_checks',
            field=models.PositiveIntegerField(db_default=0, default=0, editable=False, help_text='Consecutive failed checks.'),
        ),
        migrations.AlterField(
            model_name='relayer',
            name='good_checks',
            field=models.PositiveIntegerField(db_default=0, default=0, editable=False, help_text='Consecutive successful checks.'),
        ),
    ]
