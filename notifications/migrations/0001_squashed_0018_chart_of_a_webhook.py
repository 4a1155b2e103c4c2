import django.db.models.deletion
import django.db.models.functions.comparison
import django.utils.timezone
import notifications.models
import relayer_service.database.prefixes
import relayer_service.storage.encryption
import relayer_service.storage.resources
from django.db import migrations, models

from relayer_service.storage.counting import CountRows


class Migration(migrations.Migration):

    replaces = [
        ('notifications', '0001_initial'),
        ('notifications', '0002_console'),
        ('notifications', '0003_delivery_request_id'),
        ('notifications', '0004_skipped_event_count'),
        ('notifications', '0005_help_texts'),
        ('notifications', '0006_events'),
        ('notifications', '0007_index_of_chosen_events'),
        ('notifications', '0008_delivery_traceparent'),
        ('notifications', '0009_send_permission'),
        ('notifications', '0010_webhook_page'),
        ('notifications', '0011_webhook_names'),
        ('notifications', '0012_id_title'),
        ('notifications', '0013_failing_error'),
        ('notifications', '0014_failing_by_error'),
        ('notifications', '0015_channels'),
        ('notifications', '0016_index_of_channels'),
        ('notifications', '0017_validate_types'),
        ('notifications', '0018_chart_of_a_webhook'),
    ]

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('relayer_service', '0001_squashed_0020_audit_log_entries'),
    ]

    operations = [
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('due_at', models.DateTimeField(db_index=True, help_text='When the row is next due.', null=True)),
                ('lease', models.UUIDField(editable=False, null=True)),
                ('identifier', models.CharField(default=notifications.models.new_message_id, help_text='The same for every attempt.', max_length=64, unique=True, verbose_name='webhook-id')),
                ('event', models.CharField(max_length=64)),
                ('subject', models.CharField(blank=True, db_default='', default='', help_text='The ID of the relayer that the event is about; empty for other events.', max_length=255, verbose_name='relayer')),
                ('request_id', models.CharField(blank=True, db_default='', default='', help_text='The ID of the request or task that caused the event, as in the log.', max_length=128)),
                ('traceparent', models.CharField(blank=True, db_default='', default='', help_text="The trace of the request that caused the event. Of a transaction's event, of the one that sent it.", max_length=55)),
                ('body', models.BinaryField()),
                ('state', models.CharField(choices=[('pending', 'Pending'), ('delivered', 'Delivered'), ('failed', 'Failed')], default='pending', max_length=16)),
                ('attempts_made', models.PositiveIntegerField(default=0, help_text='Since it was emitted or replayed.', verbose_name='attempts')),
                ('response_code', models.PositiveSmallIntegerField(help_text='Of the last attempt.', null=True)),
                ('error', models.CharField(blank=True, help_text='The error of the last attempt.', max_length=200)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('attempted_at', models.DateTimeField(null=True, verbose_name='last attempt')),
            ],
            options={
                'verbose_name_plural': 'deliveries',
                'ordering': ['-id'],
                'permissions': [('send_delivery', 'Can replay and retry deliveries and send test events')],
            },
        ),
        migrations.CreateModel(
            name='SkippedEventCount',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('target', models.BigIntegerField(db_index=True, help_text='The primary key of the webhook.')),
                ('events', models.PositiveBigIntegerField()),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Attempt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('started_at', models.DateTimeField()),
                ('milliseconds', models.PositiveIntegerField()),
                ('response_code', models.PositiveSmallIntegerField(null=True)),
                ('answer', models.TextField(blank=True, help_text='The first 2 kB of the response body.')),
                ('error', models.CharField(blank=True, max_length=200)),
                ('signature', models.TextField(blank=True, db_default='', default='', help_text='The header `webhook-signature`, if the request was signed.')),
                ('delivery', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='attempts', to='notifications.delivery')),
            ],
            options={
                'ordering': ['id'],
            },
        ),
        migrations.CreateModel(
            name='DeliveryHour',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField()),
                ('state', models.CharField(choices=[('pending', 'Pending'), ('delivered', 'Delivered'), ('failed', 'Failed')], max_length=16)),
                ('deliveries', models.PositiveBigIntegerField()),
                ('counted_at', models.DateTimeField()),
            ],
            options={
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('hour', 'state'), name='delivery_hour_once_a_state')],
            },
        ),
        migrations.CreateModel(
            name='Notification',
            fields=[
                ('sequence', models.BigAutoField(primary_key=True, serialize=False)),
                ('identifier', models.CharField(default=relayer_service.storage.resources.new_identifier, help_text='The ID used by API clients. Cannot be changed after creation.', max_length=255, unique=True, validators=[relayer_service.storage.resources.validate_identifier], verbose_name='ID')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('type', models.CharField(choices=[('webhook', 'Webhook'), ('slack', 'Slack'), ('email', 'E-mail')], default='webhook', max_length=32)),
                ('url', models.TextField(help_text='The URL that events are sent to.', validators=[notifications.models.validate_target], verbose_name='URL')),
                ('enabled', models.BooleanField(db_default=True, default=True, help_text='If disabled, new events are not queued, and pending deliveries are held until it is enabled.')),
                ('events', models.TextField(db_default='notification.* relayer.* token.* transaction.*', default='relayer.* transaction.*', help_text='The events that it receives, and groups of events.')),
                ('signing_key', relayer_service.storage.encryption.EncryptedJSONField(editable=False, null=True)),
                ('previous_signing_key', relayer_service.storage.encryption.EncryptedJSONField(editable=False, null=True)),
                ('previous_key_until', models.DateTimeField(editable=False, help_text='When the previous key expires; until then, events are signed with both keys.', null=True)),
                ('failing_since', models.DateTimeField(editable=False, help_text='When attempts started to fail; empty if the last one succeeded.', null=True)),
                ('failing_error', models.CharField(blank=True, db_default='', default='', editable=False, help_text='The error of the last attempt; empty if it succeeded.', max_length=200)),
                ('gone_at', models.DateTimeField(editable=False, help_text='When it returned 410 Gone. No events are sent to it after that.', null=True)),
                ('tried', models.BooleanField(db_default=True, default=False, editable=False, help_text='Whether an attempt was made at the current URL.')),
                ('failing_announced_at', models.DateTimeField(editable=False, help_text='When other webhooks were last notified that this one is failing.', null=True)),
            ],
            options={
                'verbose_name': 'webhook',
                'ordering': ['sequence'],
                'abstract': False,
                'indexes': [models.Index(relayer_service.database.prefixes.CaseFolded('identifier'), models.F('sequence'), name='notification_identifier_prefix'), models.Index(relayer_service.database.prefixes.CaseFolded('url'), models.F('sequence'), name='notification_url_prefix'), models.Index(models.F('sequence'), condition=models.Q(('events', 'relayer.* transaction.*'), _negated=True), name='notification_own_events'), models.Index(models.F('sequence'), condition=models.Q(('type', 'webhook'), _negated=True), name='notification_channels'), models.Index(models.F('sequence'), condition=models.Q(('enabled', True), ('failing_since__isnull', False), ('gone_at', None)), name='notification_failing'), models.Index(models.F('sequence'), condition=models.Q(('enabled', True), ('gone_at__isnull', False)), name='notification_gone'), models.Index(models.F('sequence'), condition=models.Q(('enabled', False)), name='notification_disabled'), models.Index(models.F('failing_error'), models.F('failing_since'), models.F('sequence'), condition=models.Q(('enabled', True), ('failing_since__isnull', False), ('gone_at', None)), name='notification_failing_by_error')],
                'constraints': [models.CheckConstraint(condition=models.Q(('type__in', ['webhook', 'slack', 'email'])), name='notification_type_known'), models.CheckConstraint(condition=models.Q(('identifier', ''), _negated=True), name='notification_identifier_not_empty'), models.CheckConstraint(condition=models.Q(('url', ''), _negated=True), name='notification_url_not_empty')],
            },
        ),
        migrations.AddField(
            model_name='delivery',
            name='notification',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='deliveries', to='notifications.notification', verbose_name='webhook'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(models.F('notification'), models.F('due_at'), condition=models.Q(('due_at__isnull', False)), name='delivery_due'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(models.F('notification'), models.F('created_at'), models.F('state'), name='delivery_of_webhook'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(models.F('notification'), models.F('id'), name='delivery_by_target'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(models.F('subject'), models.F('id'), condition=models.Q(('subject', ''), _negated=True), name='delivery_subject'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(models.F('state'), models.F('id'), name='delivery_state'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(models.F('event'), models.F('id'), name='delivery_event'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(models.F('created_at'), models.F('id'), models.F('state'), name='delivery_created'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(models.F('state'), django.db.models.functions.comparison.Coalesce('attempted_at', 'created_at'), name='delivery_failed'),
        ),
        migrations.AddConstraint(
            model_name='delivery',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['pending', 'delivered', 'failed'])), name='delivery_state_known'),
        ),
        migrations.AddConstraint(
            model_name='delivery',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('due_at__isnull', False), ('state', 'pending')), models.Q(models.Q(('state', 'pending'), _negated=True), ('due_at__isnull', True)), _connector='OR'), name='delivery_due_while_pending'),
        ),
        CountRows('Notification'),
    ]
