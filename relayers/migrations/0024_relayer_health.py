"""What the service finds out about a relayer, in a table of its own. See 0026 for how both releases write it."""

import django.db.models.deletion
import relayer_service.database.clock
import relayer_service.database.prefixes
from django.db import migrations, models

# Of each page: the next versions of its rows fit beside them, and a claim updates no index.
FILLFACTOR = 70


def set_fillfactor(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(f"ALTER TABLE relayers_relayerhealth SET (fillfactor = {FILLFACTOR})")


class Migration(migrations.Migration):

    dependencies = [
        ('relayers', '0023_other_address'),
    ]

    operations = [
        migrations.CreateModel(
            name='RelayerHealth',
            fields=[
                ('lease', models.UUIDField(editable=False, null=True)),
                ('relayer', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='health', serialize=False, to='relayers.relayer')),
                ('due_at', models.DateTimeField(db_index=True, default=relayer_service.database.clock.DatabaseNow, editable=False, null=True)),
                ('leased_until', models.DateTimeField(editable=False, null=True)),
                ('network', models.CharField(blank=True, editable=False, max_length=64)),
                ('system_disabled', models.BooleanField(default=False, editable=False, help_text='Set by the health check.')),
                ('disabled_reason_type', models.CharField(blank=True, choices=[('NonceSyncFailed', 'The nonce cannot be read from any node')], editable=False, max_length=32)),
                ('disabled_reason_details', models.TextField(blank=True, editable=False)),
                ('checked_at', models.DateTimeField(editable=False, null=True, verbose_name='last check')),
                ('nonce', models.PositiveBigIntegerField(editable=False, null=True)),
                ('balance_text', models.CharField(blank=True, editable=False, max_length=78, verbose_name='balance')),
                ('balance_at', models.DateTimeField(editable=False, help_text='When the balance was last read.', null=True)),
                ('balance_is_low', models.BooleanField(default=False, editable=False)),
                ('balance_hours', models.JSONField(default=list, editable=False, help_text='The balance by hour; see `balance_hours.py`.')),
                ('minimum_hours', models.JSONField(default=list, editable=False, help_text='The same of the minimum.')),
                ('outflow_days', models.JSONField(default=list, editable=False, help_text='See `runway.py`.')),
                ('runway_is_short', models.BooleanField(default=False, editable=False)),
                ('failed_checks', models.PositiveIntegerField(default=0, editable=False, help_text='Consecutive failed checks.')),
                ('good_checks', models.PositiveIntegerField(default=0, editable=False, help_text='Consecutive successful checks.')),
                ('failing_since', models.DateTimeField(editable=False, help_text='When its checks started to fail.', null=True)),
                ('low_since', models.DateTimeField(editable=False, help_text='When its balance fell below the minimum.', null=True)),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.AddIndex(
            model_name='relayerhealth',
            index=models.Index(models.F('relayer'), condition=models.Q(('system_disabled', True)), name='health_disabled'),
        ),
        migrations.AddIndex(
            model_name='relayerhealth',
            index=models.Index(models.F('relayer'), condition=models.Q(('balance_is_low', True)), name='health_low_balance'),
        ),
        migrations.AddIndex(
            model_name='relayerhealth',
            index=models.Index(models.F('relayer'), condition=models.Q(('system_disabled', False), models.Q(('checked_at', None), ('nonce', None), ('balance_text', ''), _connector='OR')), name='health_unknown'),
        ),
        migrations.AddIndex(
            model_name='relayerhealth',
            index=models.Index(models.F('relayer'), condition=models.Q(('balance_is_low', False), ('system_disabled', False), ('balance_text__gt', ''), ('checked_at__isnull', False), ('nonce__isnull', False)), name='health_working'),
        ),
        migrations.AddIndex(
            model_name='relayerhealth',
            index=models.Index(models.F('relayer'), condition=models.Q(('failed_checks__gt', 0), ('system_disabled', False)), name='health_nodes_failing'),
        ),
        migrations.AddIndex(
            model_name='relayerhealth',
            index=models.Index(models.F('network'), models.F('system_disabled'), models.F('failing_since'), models.F('relayer'), condition=models.Q(('failed_checks__gt', 0)), name='health_check_failures'),
        ),
        migrations.AddIndex(
            model_name='relayerhealth',
            index=models.Index(models.F('network'), models.F('failing_since'), models.F('relayer'), condition=models.Q(('failed_checks', 0), ('system_disabled', True)), name='health_other_address'),
        ),
        migrations.AddIndex(
            model_name='relayerhealth',
            index=models.Index(models.F('network'), models.F('low_since'), models.F('relayer'), condition=models.Q(('balance_is_low', True)), name='health_low_by_network'),
        ),
        migrations.AddIndex(
            model_name='relayerhealth',
            index=models.Index(models.F('network'), models.F('relayer'), condition=models.Q(('balance_is_low', False), ('runway_is_short', True)), name='health_used_up_soon'),
        ),
        migrations.AddIndex(
            model_name='relayerhealth',
            index=models.Index(models.F('checked_at'), models.F('relayer'), name='health_checked'),
        ),
        migrations.AddIndex(
            model_name='relayerhealth',
            index=models.Index(relayer_service.database.prefixes.DigitsOrder('balance_text'), models.F('relayer'), name='health_balance'),
        ),
        migrations.AddConstraint(
            model_name='relayerhealth',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('disabled_reason_type', 'NonceSyncFailed'), ('system_disabled', True)), models.Q(('disabled_reason_details', ''), ('disabled_reason_type', ''), ('system_disabled', False)), _connector='OR'), name='health_reason_while_disabled'),
        ),
        migrations.RunPython(set_fillfactor, migrations.RunPython.noop),
    ]
