import django.db.models.deletion
import django.utils.timezone
import incidents.models
import notifications.models
import relayer_service.storage.encryption
import relayer_service.storage.resources
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [
        ('incidents', '0001_initial'),
        ('incidents', '0002_failing_transactions'),
    ]

    initial = True

    dependencies = [
        ('relayers', '0001_squashed_0034_tags'),
    ]

    operations = [
        migrations.CreateModel(
            name='AlertRoute',
            fields=[
                ('sequence', models.BigAutoField(primary_key=True, serialize=False)),
                ('identifier', models.CharField(default=relayer_service.storage.resources.new_identifier, help_text='The ID used by API clients. Cannot be changed after creation.', max_length=255, unique=True, validators=[relayer_service.storage.resources.validate_identifier], verbose_name='ID')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('channel', models.CharField(choices=[('slack', 'Slack'), ('email', 'E-mail'), ('webhook', 'Webhook'), ('pagerduty', 'PagerDuty'), ('opsgenie', 'Opsgenie')], max_length=16)),
                ('url', models.TextField(validators=[notifications.models.validate_target], verbose_name='URL')),
                ('secret', relayer_service.storage.encryption.EncryptedJSONField(editable=False, null=True)),
                ('kinds', models.JSONField(blank=True, default=list)),
                ('networks', models.JSONField(blank=True, default=list)),
                ('tags', models.JSONField(blank=True, default=list)),
                ('severe_only', models.BooleanField(default=False, help_text='Severe problems only; otherwise warnings too.', verbose_name='only severe problems')),
                ('quiet_from', models.TimeField(blank=True, help_text='From this time of day on, alerts wait. Empty: there are no quiet hours.', null=True)),
                ('quiet_until', models.TimeField(blank=True, help_text='At this time of day, waiting alerts are sent.', null=True)),
                ('time_zone', models.CharField(default='UTC', help_text='Of the quiet hours.', max_length=64)),
                ('severe_passes', models.BooleanField(default=True, help_text='Alerts about severe problems are sent in quiet hours too.', verbose_name='severe problems pass')),
                ('on_call', models.CharField(blank=True, help_text='Who is on it: a name or a team, which every alert shows.', max_length=150)),
                ('enabled', models.BooleanField(default=True, help_text='If disabled, nothing is sent; pending alerts wait until it is enabled.')),
            ],
            options={
                'verbose_name': 'alert route',
                'ordering': ['sequence'],
                'abstract': False,
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('quiet_from', None), ('quiet_until', None)), models.Q(('quiet_from__isnull', False), ('quiet_until__isnull', False)), _connector='OR'), name='alert_route_quiet_hours')],
            },
        ),
        migrations.CreateModel(
            name='Incident',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('identifier', models.CharField(default=incidents.models.new_incident_id, max_length=64, unique=True, verbose_name='ID')),
                ('key', models.CharField(help_text='Identifies it while it is open.', max_length=100)),
                ('kind', models.CharField(choices=[('node_down', 'Node down'), ('chain_halted', 'Chain halted'), ('stuck', 'Stuck transactions'), ('waiting_for_funds', 'Waiting for funds'), ('low_balance', 'Low balance'), ('limit_reached', 'Limit reached'), ('webhook_failing', 'Webhook failing'), ('signer_failing', 'Signer failing'), ('silent_worker', 'Silent worker'), ('held_lane', 'Held lane'), ('contradiction', 'Contradiction between nodes'), ('transactions_failing', 'Failing transactions'), ('other', 'Anything else')], max_length=32)),
                ('network', models.CharField(blank=True, max_length=64)),
                ('title', models.CharField(max_length=300)),
                ('url', models.TextField(help_text='The path of the list of what has the problem.')),
                ('severe', models.BooleanField(default=False)),
                ('unit', models.CharField(help_text='The noun that is counted, in the singular.', max_length=32)),
                ('number', models.PositiveBigIntegerField(help_text='How many have it, as last read.')),
                ('largest', models.PositiveBigIntegerField(help_text='How many had it at most.')),
                ('announced', models.PositiveBigIntegerField(help_text='How many had it at the last alert.', null=True)),
                ('announced_severe', models.BooleanField(default=False, help_text='Whether an alert has said that it is severe.')),
                ('magnitude', models.PositiveSmallIntegerField(default=0, help_text='How often it has got worse.')),
                ('started_at', models.DateTimeField(verbose_name='start')),
                ('opened_at', models.DateTimeField(help_text='When it was first read.')),
                ('absent_since', models.DateTimeField(help_text='Since when it is no longer read.', null=True)),
                ('ended_at', models.DateTimeField(null=True, verbose_name='end')),
                ('acknowledged_by', models.CharField(blank=True, max_length=150)),
                ('acknowledged_at', models.DateTimeField(null=True)),
                ('note', models.CharField(blank=True, max_length=500)),
            ],
            options={
                'ordering': ['-id'],
                'default_permissions': ['view'],
                'indexes': [models.Index(models.F('network'), models.F('id'), name='incident_network'), models.Index(models.F('kind'), models.F('id'), name='incident_kind'), models.Index(models.F('ended_at'), models.F('id'), name='incident_ended')],
                'constraints': [models.UniqueConstraint(models.F('key'), condition=models.Q(('ended_at', None)), name='incident_open_once')],
            },
        ),
        migrations.CreateModel(
            name='AlertMessage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('due_at', models.DateTimeField(db_index=True, help_text='When the row is next due.', null=True)),
                ('lease', models.UUIDField(editable=False, null=True)),
                ('identifier', models.CharField(default=notifications.models.new_message_id, max_length=64, unique=True, verbose_name='message ID')),
                ('route_name', models.CharField(max_length=255, verbose_name='route')),
                ('key', models.CharField(blank=True, max_length=100)),
                ('event', models.CharField(choices=[('began', 'Began'), ('grew', 'Got worse'), ('ended', 'Ended'), ('test', 'Test')], max_length=16)),
                ('magnitude', models.PositiveSmallIntegerField(default=0)),
                ('data', models.JSONField(help_text='What it says, as of its creation.')),
                ('state', models.CharField(choices=[('pending', 'Pending'), ('sent', 'Sent'), ('failed', 'Failed'), ('skipped', 'Left out for a later one')], default='pending', max_length=16)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('attempted_at', models.DateTimeField(null=True)),
                ('sent_at', models.DateTimeField(null=True)),
                ('error', models.CharField(blank=True, max_length=200)),
                ('route', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='incidents.alertroute')),
                ('incident', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='messages', to='incidents.incident')),
            ],
            options={
                'ordering': ['id'],
                'default_permissions': (),
                'indexes': [models.Index(models.F('route'), models.F('id'), name='alert_message_of_route'), models.Index(models.F('route'), models.F('attempted_at'), name='alert_message_attempted')],
                'constraints': [models.UniqueConstraint(models.F('incident'), models.F('route'), models.F('event'), models.F('magnitude'), name='alert_message_once'), models.CheckConstraint(condition=models.Q(models.Q(('due_at__isnull', False), ('state', 'pending')), models.Q(models.Q(('state', 'pending'), _negated=True), ('due_at', None)), _connector='OR'), name='alert_message_due_while_pending')],
            },
        ),
        migrations.CreateModel(
            name='IncidentRelayer',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('incident', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='relayers', to='incidents.incident')),
                ('relayer', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='relayers.relayer')),
            ],
            options={
                'default_permissions': (),
                'indexes': [models.Index(models.F('relayer'), models.F('incident'), name='incident_of_relayer')],
                'constraints': [models.UniqueConstraint(models.F('incident'), models.F('relayer'), name='incident_relayer_once')],
            },
        ),
    ]
