import django.core.validators
import django.db.models.deletion
import django.utils.timezone
import relayer_service.database.clock
import relayer_service.database.prefixes
import relayer_service.storage.encryption
import relayer_service.storage.resources
import relayer_service.tags
import relayers.models.relayers
from django.db import migrations, models

from relayer_service.database.operations import SetFillFactor
from relayer_service.storage.counting import CountRows


class Migration(migrations.Migration):

    replaces = [
        ('relayers', '0001_initial'),
        ('relayers', '0002_count_parts'),
        ('relayers', '0003_console'),
        ('relayers', '0004_balance_at_and_lease_end'),
        ('relayers', '0005_room_for_checks'),
        ('relayers', '0006_help_texts'),
        ('relayers', '0007_spending'),
        ('relayers', '0008_allow_signing'),
        ('relayers', '0009_top_ups'),
        ('relayers', '0010_funded_relayers'),
        ('relayers', '0011_validate_top_ups'),
        ('relayers', '0012_private_nodes'),
        ('relayers', '0013_pause_and_check_permissions'),
        ('relayers', '0014_webhook_names'),
        ('relayers', '0015_id_title'),
        ('relayers', '0016_sorted_lists'),
        ('relayers', '0017_balance_history'),
        ('relayers', '0018_starts_of_problems'),
        ('relayers', '0019_problems_by_network'),
        ('relayers', '0020_nodes'),
        ('relayers', '0021_relayers_by_nodes'),
        ('relayers', '0022_used_up_soon'),
        ('relayers', '0023_other_address'),
        ('relayers', '0024_relayer_health'),
        ('relayers', '0025_defaults'),
        ('relayers', '0026_copy_health'),
        ('relayers', '0027_fill_health'),
        ('relayers', '0028_columns_of_last_release'),
        ('relayers', '0029_running_relayers'),
        ('relayers', '0030_move_node_calls'),
        ('relayers', '0032_reserve'),
        ('relayers', '0033_copy_reserves'),
        ('relayers', '0034_tags'),
    ]

    initial = True

    dependencies = [
        ('notifications', '0001_squashed_0018_chart_of_a_webhook'),
        ('signers', '0001_squashed_0006_sorted_lists'),
        ('spending', '0001_squashed_0002_fill_factor'),
    ]

    operations = [
        migrations.CreateModel(
            name='NodeOutage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('node', models.CharField(help_text='The keyed hash of its URL.', max_length=16, unique=True)),
                ('url', models.CharField(help_text='Masked.', max_length=2048)),
                ('network', models.CharField(max_length=64)),
                ('until', models.DateTimeField()),
                ('by', models.CharField(max_length=150)),
                ('reason', models.CharField(max_length=500)),
            ],
            options={
                'verbose_name': 'node taken out',
                'verbose_name_plural': 'nodes taken out',
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Relayer',
            fields=[
                ('sequence', models.BigAutoField(primary_key=True, serialize=False)),
                ('identifier', models.CharField(default=relayer_service.storage.resources.new_identifier, help_text='The ID used by API clients. Cannot be changed after creation.', max_length=255, unique=True, validators=[relayer_service.storage.resources.validate_identifier], verbose_name='ID')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('name', models.CharField(max_length=255)),
                ('network', models.CharField(max_length=64)),
                ('network_type', models.CharField(choices=[('evm', 'EVM')], default='evm', max_length=16)),
                ('chain_id', models.PositiveBigIntegerField(blank=True, help_text='Required for an unknown network. Its nodes must report this chain ID.', null=True, verbose_name='chain ID')),
                ('address', models.CharField(blank=True, help_text='Filled in from the signer, if it can provide it.', max_length=64)),
                ('paused', models.BooleanField(default=False, help_text='Set by staff.')),
                ('custom_rpc_urls', relayer_service.storage.encryption.EncryptedJSONField(editable=False, null=True)),
                ('masked_rpc_urls', models.JSONField(default=list, editable=False, help_text='The custom RPC URLs, masked for display.')),
                ('private_rpc_urls', relayer_service.storage.encryption.EncryptedJSONField(editable=False, null=True)),
                ('masked_private_rpc_urls', models.JSONField(db_default=[], default=list, editable=False, help_text='The private RPC URLs, masked for display.')),
                ('node_keys', models.CharField(blank=True, db_default='?', default='', editable=False, max_length=2000)),
                ('private_fallback_blocks', models.PositiveIntegerField(blank=True, help_text='After how many blocks without being mined a private transaction is also sent to public nodes. Empty: never.', null=True, validators=[django.core.validators.MinValueValidator(1)])),
                ('policies', models.JSONField(default=dict, editable=False)),
                ('allow_signing', models.JSONField(blank=True, db_default=[], default=list, help_text='What tokens with the scope `sign` can have signed with its key, besides transactions.', validators=[relayers.models.relayers.validate_signing_kinds])),
                ('top_up_minimum_text', models.CharField(blank=True, db_default='', default='', editable=False, max_length=78)),
                ('top_up_target_text', models.CharField(blank=True, db_default='', default='', editable=False, max_length=78)),
                ('top_up_daily_limit_text', models.CharField(blank=True, db_default='', default='', editable=False, max_length=78)),
                ('reserve_text', models.CharField(editable=False, max_length=78, null=True)),
                ('funding_relayer', models.ForeignKey(blank=True, db_index=False, help_text='Sends it coins when its balance falls below the minimum. Empty: only an alert.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='relayers.relayer')),
                ('notification', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='relayers', to='notifications.notification', verbose_name='webhook')),
                ('signer', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='relayers', to='signers.signer')),
                ('spending', models.ForeignKey(db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='spending.spendingpolicy')),
            ],
            options={
                'ordering': ['sequence'],
                'permissions': [('pause_relayer', 'Can pause and resume relayers'), ('check_relayer', 'Can check relayers now'), ('take_out_node', 'Can take nodes out and put them back')],
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='RelayerTag',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=32, validators=[relayer_service.tags.validate_tag])),
                ('relayer', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='tag_rows', to='relayers.relayer')),
            ],
            options={
                'default_permissions': (),
            },
        ),
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
                'indexes': [models.Index(models.F('relayer'), condition=models.Q(('system_disabled', True)), name='health_disabled'), models.Index(models.F('relayer'), condition=models.Q(('balance_is_low', True)), name='health_low_balance'), models.Index(models.F('relayer'), condition=models.Q(('system_disabled', False), models.Q(('checked_at', None), ('nonce', None), ('balance_text', ''), _connector='OR')), name='health_unknown'), models.Index(models.F('relayer'), condition=models.Q(('balance_is_low', False), ('system_disabled', False), ('balance_text__gt', ''), ('checked_at__isnull', False), ('nonce__isnull', False)), name='health_working'), models.Index(models.F('relayer'), condition=models.Q(('failed_checks__gt', 0), ('system_disabled', False)), name='health_nodes_failing'), models.Index(models.F('network'), models.F('system_disabled'), models.F('failing_since'), models.F('relayer'), condition=models.Q(('failed_checks__gt', 0)), name='health_check_failures'), models.Index(models.F('network'), models.F('failing_since'), models.F('relayer'), condition=models.Q(('failed_checks', 0), ('system_disabled', True)), name='health_other_address'), models.Index(models.F('network'), models.F('low_since'), models.F('relayer'), condition=models.Q(('balance_is_low', True)), name='health_low_by_network'), models.Index(models.F('network'), models.F('relayer'), condition=models.Q(('balance_is_low', False), ('runway_is_short', True)), name='health_used_up_soon'), models.Index(models.F('checked_at'), models.F('relayer'), name='health_checked'), models.Index(relayer_service.database.prefixes.DigitsOrder('balance_text'), models.F('relayer'), name='health_balance')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('disabled_reason_type', 'NonceSyncFailed'), ('system_disabled', True)), models.Q(('disabled_reason_details', ''), ('disabled_reason_type', ''), ('system_disabled', False)), _connector='OR'), name='health_reason_while_disabled')],
            },
        ),
        migrations.AddIndex(
            model_name='relayer',
            index=models.Index(models.F('sequence'), condition=models.Q(('paused', True)), name='relayer_paused'),
        ),
        migrations.AddIndex(
            model_name='relayer',
            index=models.Index(models.F('sequence'), condition=models.Q(('address', '')), name='relayer_no_address'),
        ),
        migrations.AddIndex(
            model_name='relayer',
            index=models.Index(models.F('sequence'), condition=models.Q(('paused', False), models.Q(('address', ''), _negated=True)), name='relayer_running'),
        ),
        migrations.AddIndex(
            model_name='relayer',
            index=models.Index(relayer_service.database.prefixes.CaseFolded('identifier'), models.F('sequence'), name='relayer_identifier_prefix'),
        ),
        migrations.AddIndex(
            model_name='relayer',
            index=models.Index(relayer_service.database.prefixes.CaseFolded('name'), models.F('sequence'), name='relayer_name_prefix'),
        ),
        migrations.AddIndex(
            model_name='relayer',
            index=models.Index(relayer_service.database.prefixes.CaseFolded('address'), models.F('sequence'), name='relayer_address_prefix'),
        ),
        migrations.AddIndex(
            model_name='relayer',
            index=models.Index(models.F('network'), models.F('sequence'), name='relayer_network'),
        ),
        migrations.AddIndex(
            model_name='relayer',
            index=models.Index(models.F('network'), models.F('node_keys'), models.F('sequence'), name='relayer_nodes'),
        ),
        migrations.AddIndex(
            model_name='relayer',
            index=models.Index(models.F('signer'), models.F('sequence'), name='relayer_signer'),
        ),
        migrations.AddIndex(
            model_name='relayer',
            index=models.Index(models.F('notification'), models.F('sequence'), name='relayer_notification'),
        ),
        migrations.AddIndex(
            model_name='relayer',
            index=models.Index(models.F('funding_relayer'), condition=models.Q(('funding_relayer__isnull', False)), name='relayer_funded'),
        ),
        migrations.AddConstraint(
            model_name='relayer',
            constraint=models.CheckConstraint(condition=models.Q(('identifier', ''), _negated=True), name='relayer_identifier_not_empty'),
        ),
        migrations.AddConstraint(
            model_name='relayer',
            constraint=models.CheckConstraint(condition=models.Q(('name', ''), _negated=True), name='relayer_name_not_empty'),
        ),
        migrations.AddConstraint(
            model_name='relayer',
            constraint=models.CheckConstraint(condition=models.Q(('network_type', 'evm')), name='relayer_network_type_known'),
        ),
        migrations.AddConstraint(
            model_name='relayer',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('funding_relayer', None), ('top_up_daily_limit_text', ''), ('top_up_minimum_text', ''), ('top_up_target_text', '')), models.Q(('funding_relayer__isnull', False), models.Q(('top_up_minimum_text', ''), ('top_up_target_text', ''), ('top_up_daily_limit_text', ''), _connector='OR', _negated=True)), _connector='OR'), name='relayer_top_up_is_complete'),
        ),
        migrations.AddIndex(
            model_name='relayertag',
            index=models.Index(models.F('name'), models.F('relayer'), name='relayer_tag_by_name'),
        ),
        migrations.AddConstraint(
            model_name='relayertag',
            constraint=models.UniqueConstraint(fields=('relayer', 'name'), name='relayer_tag_once'),
        ),
        CountRows('Relayer'),
        SetFillFactor('relayer', 85),
        SetFillFactor('relayerhealth', 70),
    ]
