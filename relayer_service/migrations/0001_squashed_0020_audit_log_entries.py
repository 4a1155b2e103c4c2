import django.db.models.deletion
import django.utils.timezone
import relayer_service.storage.encryption
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [
        ('relayer_service', '0001_initial'),
        ('relayer_service', '0002_console'),
        ('relayer_service', '0003_help_texts'),
        ('relayer_service', '0004_jobs_of_tokens'),
        ('relayer_service', '0005_reserve_names_of_roles'),
        ('relayer_service', '0006_action_label'),
        ('relayer_service', '0007_sign_in'),
        ('relayer_service', '0008_job_parameters'),
        ('relayer_service', '0009_acknowledgements'),
        ('relayer_service', '0010_stopped_workers'),
        ('relayer_service', '0011_worker_processes'),
        ('relayer_service', '0012_job_skipped'),
        ('relayer_service', '0013_call_counts'),
        ('relayer_service', '0014_sign_in_address_names'),
        ('relayer_service', '0015_changes_of_tokens'),
        ('relayer_service', '0016_actions_of_tokens'),
        ('relayer_service', '0017_list_preferences'),
        ('relayer_service', '0018_user_preferences'),
        ('relayer_service', '0019_silent_workers'),
        ('relayer_service', '0020_audit_log_entries'),
    ]

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Acknowledgement',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('cause', models.CharField(help_text='The key of the cause.', max_length=300, unique=True)),
                ('title', models.CharField(max_length=300)),
                ('number', models.PositiveBigIntegerField(help_text='How many had the problem.')),
                ('severe', models.BooleanField(default=False)),
                ('by', models.CharField(max_length=150)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('note', models.CharField(blank=True, max_length=500)),
            ],
            options={
                'permissions': [('acknowledge', 'Can acknowledge problems on the overview')],
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='EncryptionKey',
            fields=[
                ('identifier', models.CharField(max_length=16, primary_key=True, serialize=False)),
                ('canary', relayer_service.storage.encryption.EncryptedJSONField()),
            ],
        ),
        migrations.CreateModel(
            name='PeriodicRun',
            fields=[
                ('name', models.CharField(max_length=100, primary_key=True, serialize=False)),
                ('slot', models.BigIntegerField(help_text='The number of the interval that ran last.')),
                ('started_at', models.DateTimeField()),
                ('finished_at', models.DateTimeField(help_text='When a run last succeeded.', null=True)),
                ('seconds', models.FloatField(help_text='The duration of that run.', null=True)),
                ('failed', models.BooleanField(default=False, help_text='Whether the last run failed. The error is in the log.')),
                ('stopped_since', models.DateTimeField(editable=False, null=True)),
            ],
            options={
                'verbose_name': 'periodic work',
                'verbose_name_plural': 'periodic work',
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='WorkerProcess',
            fields=[
                ('name', models.CharField(help_text='The host and the process ID.', max_length=300, primary_key=True, serialize=False)),
                ('beat_at', models.DateTimeField()),
                ('started_at', models.DateTimeField(null=True)),
                ('missed', models.PositiveIntegerField(default=0, help_text='Checks since its last heartbeat.')),
                ('silent_since', models.DateTimeField(help_text='Its last heartbeat, if it is reported as silent.', null=True)),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(editable=False, verbose_name='when')),
                ('object_type', models.CharField(editable=False, max_length=32, verbose_name='type')),
                ('object_pk', models.CharField(editable=False, help_text='The primary key of the object, which may have been deleted.', max_length=64)),
                ('object_id', models.CharField(editable=False, help_text='The public ID or name of the object.', max_length=255, verbose_name='object')),
                ('action', models.CharField(choices=[('created', 'Created'), ('changed', 'Changed'), ('deleted', 'Deleted'), ('acted', 'Action')], editable=False, max_length=16)),
                ('actor_kind', models.CharField(choices=[('user', 'User'), ('token', 'Token'), ('fleet file', 'Fleet file'), ('health check', 'Health check'), ('command', 'Command'), ('worker', 'Worker'), ('unknown', 'Unknown')], editable=False, max_length=16, verbose_name='kind of actor')),
                ('actor', models.CharField(editable=False, help_text='The user, or the name of the token, file, command or task.', max_length=255)),
                ('actor_key', models.CharField(blank=True, editable=False, help_text='The public part of a token.', max_length=12)),
                ('request_id', models.CharField(blank=True, editable=False, help_text='As in the log.', max_length=128, verbose_name='request')),
                ('address', models.CharField(blank=True, editable=False, help_text='The IP address of the client.', max_length=64, verbose_name='from')),
                ('reason', models.TextField(blank=True, editable=False)),
                ('changes', models.JSONField(default=dict, editable=False, help_text='The old and new value of each field. For a secret, only whether it was set, changed or removed.')),
            ],
            options={
                'verbose_name': 'audit log entry',
                'verbose_name_plural': 'audit log entries',
                'ordering': ['-at', '-id'],
                'default_permissions': ['view'],
                'indexes': [models.Index(models.F('at'), models.F('id'), name='audit_by_time'), models.Index(models.F('object_type'), models.F('object_pk'), models.F('at'), models.F('id'), name='audit_of_row'), models.Index(models.F('object_type'), models.F('at'), models.F('id'), name='audit_by_type'), models.Index(models.F('object_id'), models.F('at'), models.F('id'), name='audit_by_object'), models.Index(models.F('actor_kind'), models.F('at'), models.F('id'), name='audit_by_kind'), models.Index(models.F('actor'), models.F('at'), models.F('id'), name='audit_by_actor'), models.Index(models.F('actor_key'), models.F('at'), models.F('id'), condition=models.Q(models.Q(('actor_key', ''), _negated=True), models.Q(('action', 'acted'), _negated=True)), name='audit_changes_of_token'), models.Index(models.F('actor_key'), models.F('at'), models.F('id'), condition=models.Q(models.Q(('actor_key', ''), _negated=True), ('action', 'acted')), name='audit_actions_of_token'), models.Index(models.F('request_id'), models.F('at'), models.F('id'), name='audit_by_request')],
            },
        ),
        migrations.CreateModel(
            name='CallCount',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=16)),
                ('subject', models.CharField(help_text="The keyed hash of a node's URL, or the primary key of a relayer.", max_length=64)),
                ('start', models.DateTimeField()),
                ('method', models.CharField(help_text='Of JSON-RPC, through one relayer.', max_length=64)),
                ('outcome', models.CharField(help_text='`ok`, the code of an error, or `failed` of a node.', max_length=32)),
                ('calls', models.PositiveBigIntegerField(default=0)),
                ('slowest_milliseconds', models.PositiveBigIntegerField(default=0)),
                ('last_at', models.DateTimeField(help_text='Of the last call.', null=True)),
                ('head', models.PositiveBigIntegerField(help_text='The last head block of a node.', null=True)),
                ('head_at', models.DateTimeField(help_text='The time of that block, or else when it was first seen.', null=True)),
                ('last_fault', models.CharField(help_text='Of a node.', max_length=200)),
                ('up_to_5_ms', models.PositiveIntegerField(default=0)),
                ('up_to_10_ms', models.PositiveIntegerField(default=0)),
                ('up_to_25_ms', models.PositiveIntegerField(default=0)),
                ('up_to_50_ms', models.PositiveIntegerField(default=0)),
                ('up_to_100_ms', models.PositiveIntegerField(default=0)),
                ('up_to_250_ms', models.PositiveIntegerField(default=0)),
                ('up_to_500_ms', models.PositiveIntegerField(default=0)),
                ('up_to_1000_ms', models.PositiveIntegerField(default=0)),
                ('up_to_2500_ms', models.PositiveIntegerField(default=0)),
                ('up_to_5000_ms', models.PositiveIntegerField(default=0)),
                ('above_5000_ms', models.PositiveIntegerField(default=0)),
            ],
            options={
                'default_permissions': (),
                'indexes': [models.Index(models.F('kind'), models.F('start'), name='call_count_by_age')],
                'constraints': [models.UniqueConstraint(fields=('kind', 'subject', 'start', 'method', 'outcome'), name='call_count_once')],
            },
        ),
        migrations.CreateModel(
            name='IdempotentRequest',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('token_key', models.CharField(help_text="The public part of the caller's token.", max_length=12)),
                ('route', models.CharField(max_length=1024)),
                ('key', models.CharField(max_length=255)),
                ('digest', models.CharField(help_text='A keyed hash of the body. The body itself is not stored.', max_length=64)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('status', models.PositiveSmallIntegerField(null=True)),
                ('body', models.TextField(help_text='The complete response body.')),
            ],
            options={
                'indexes': [models.Index(models.F('at'), name='idempotent_request_by_age')],
                'constraints': [models.UniqueConstraint(models.F('token_key'), models.F('route'), models.F('key'), name='idempotent_request_once')],
            },
        ),
        migrations.CreateModel(
            name='Job',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('due_at', models.DateTimeField(db_index=True, help_text='When the row is next due.', null=True)),
                ('lease', models.UUIDField(editable=False, null=True)),
                ('kind', models.CharField(editable=False, max_length=32)),
                ('title', models.CharField(editable=False, max_length=255, verbose_name='job')),
                ('actor', models.CharField(editable=False, max_length=255, verbose_name='started by')),
                ('token_key', models.CharField(blank=True, db_default='', default='', editable=False, help_text='The public part of the token that started it; empty if a user did.', max_length=12)),
                ('reason', models.TextField(blank=True, db_default='', default='', editable=False, help_text='The reason that the caller sent.')),
                ('parameters', relayer_service.storage.encryption.EncryptedJSONField(editable=False, help_text='Of its kind, until it is over.', null=True)),
                ('traceparent', models.CharField(blank=True, db_default='', default='', editable=False, help_text='The trace of the request that started it.', max_length=55)),
                ('selection', models.TextField(editable=False, help_text='The rows (`storage/selections.py`).')),
                ('total', models.PositiveIntegerField(editable=False)),
                ('position', models.BigIntegerField(default=0, editable=False, help_text='The primary key of the last row that was processed.')),
                ('done', models.PositiveIntegerField(default=0, editable=False)),
                ('skipped', models.PositiveIntegerField(db_column='left_alone', default=0, editable=False)),
                ('failed', models.PositiveIntegerField(default=0, editable=False)),
                ('failures', models.JSONField(default=list, editable=False, help_text='The first failures, each with a name and a reason.')),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('running', 'Running'), ('stopped', 'Stopped'), ('finished', 'Finished')], default='waiting', editable=False, max_length=16)),
                ('stopped_by', models.CharField(blank=True, editable=False, help_text='The user who stopped it.', max_length=255)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('started_at', models.DateTimeField(editable=False, null=True)),
                ('finished_at', models.DateTimeField(editable=False, null=True)),
            ],
            options={
                'ordering': ['-id'],
                'default_permissions': ['view'],
                'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['waiting', 'running', 'stopped', 'finished'])), name='job_state_known'), models.CheckConstraint(condition=models.Q(models.Q(('due_at__isnull', False), ('state__in', ['waiting', 'running'])), models.Q(('due_at__isnull', True), ('state__in', ['stopped', 'finished'])), _connector='OR'), name='job_due_until_over')],
            },
        ),
        migrations.CreateModel(
            name='RowDelta',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('list_name', models.CharField(max_length=63)),
                ('bucket', models.BigIntegerField()),
                ('rows', models.BigIntegerField()),
            ],
            options={
                'indexes': [models.Index(fields=['list_name', 'bucket', 'rows'], name='rowdelta_by_bucket')],
            },
        ),
        migrations.CreateModel(
            name='SecondFactor',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('identifier', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('key', relayer_service.storage.encryption.EncryptedJSONField(editable=False)),
                ('recovery_codes', relayer_service.storage.encryption.EncryptedJSONField(editable=False, help_text='The SHA-256 digests of the unused codes.')),
                ('last_step', models.BigIntegerField(editable=False, help_text='The time step of the last accepted code.')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('user', models.OneToOneField(editable=False, on_delete=django.db.models.deletion.CASCADE, related_name='second_factor', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='UserPreference',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('time_zone', models.CharField(help_text='The name of the time zone that times are shown in.', max_length=64)),
                ('user', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, related_name='preference', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='ListPreference',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('list_name', models.CharField(help_text='The label of its model.', max_length=100)),
                ('filters', models.JSONField(default=dict, help_text='The query strings of the saved filters, by name.')),
                ('columns', models.JSONField(default=dict, help_text='Whether a column is shown, where that is not the default.')),
                ('user', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('user', 'list_name'), name='list_preference_once')],
            },
        ),
        migrations.CreateModel(
            name='SignInAddress',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('address', models.CharField(editable=False, help_text='An IPv4 address, or a /64 network of IPv6.', max_length=64)),
                ('last_at', models.DateTimeField(editable=False)),
                ('user', models.ForeignKey(db_constraint=False, editable=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'sign-in address',
                'verbose_name_plural': 'sign-in addresses',
                'default_permissions': (),
                'indexes': [models.Index(models.F('last_at'), name='sign_in_address_by_age')],
                'constraints': [models.UniqueConstraint(models.F('user'), models.F('address'), name='sign_in_address_once')],
            },
        ),
    ]
