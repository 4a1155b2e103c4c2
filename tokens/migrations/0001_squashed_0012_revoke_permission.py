import django.db.models.deletion
import django.utils.timezone
import relayer_service.database.prefixes
import tokens.models
import tokens.scopes
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [
        ('tokens', '0001_initial'),
        ('tokens', '0002_console'),
        ('tokens', '0003_pepper_fingerprints_and_replacement'),
        ('tokens', '0004_help_texts'),
        ('tokens', '0005_spending'),
        ('tokens', '0006_rotation_families'),
        ('tokens', '0007_policies_of_families'),
        ('tokens', '0008_allowed_relayers_help'),
        ('tokens', '0009_token_uses'),
        ('tokens', '0010_issued_after_revocation'),
        ('tokens', '0011_relayers_by_tag'),
        ('tokens', '0012_revoke_permission'),
    ]

    initial = True

    dependencies = [
        ('spending', '0001_squashed_0002_fill_factor'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='AccessToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='A name for the token, such as the application that uses it.', max_length=100)),
                ('key', models.CharField(editable=False, max_length=12, unique=True)),
                ('digest', models.CharField(editable=False, max_length=64)),
                ('pepper_id', models.CharField(editable=False, max_length=16)),
                ('pepper_fingerprint', models.CharField(db_default='', default='', editable=False, help_text='Identifies the pepper of its digest. Empty for a token of an earlier release until it is used.', max_length=16)),
                ('enabled', models.BooleanField(default=True, help_text='A disabled token is rejected.')),
                ('expires_at', models.DateTimeField(blank=True, help_text='In UTC. If empty, it does not expire.', null=True)),
                ('allowed_networks', models.JSONField(blank=True, default=list, help_text='Addresses or CIDR networks it is accepted from. If empty, it is accepted from any address.', validators=[tokens.models.validate_networks])),
                ('scopes', models.JSONField(blank=True, db_default=[], default=list, help_text='What it is allowed to do. If empty, it can use the operations of the interface document.', validators=[tokens.scopes.validate_scopes])),
                ('allowed_relayers', models.JSONField(blank=True, db_default=[], default=list, help_text='IDs of relayers, or tag:NAME for those with a tag, that it can send and sign with, and change. If empty, all relayers.', validators=[tokens.scopes.validate_relayer_ids])),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('first_used_at', models.DateTimeField(editable=False, null=True)),
                ('last_used_at', models.DateTimeField(editable=False, help_text='Updated at most once a minute.', null=True)),
                ('expiry_announced_at', models.DateTimeField(editable=False, null=True)),
                ('replaced_at', models.DateTimeField(editable=False, help_text='When it was replaced by a new token. A token can be replaced only once.', null=True)),
                ('family', models.CharField(db_default='', default='', editable=False, help_text='The key of the first of the tokens that replaced each other; empty if it was never replaced.', max_length=12)),
                ('issued_after', models.PositiveBigIntegerField(db_default=0, default=0, editable=False, help_text='The newest of its family when staff issued it, or the one that it was rotated from, in place of a revoked one; 0 if none was revoked.')),
                ('spending', models.ForeignKey(db_index=False, editable=False, help_text='A token that succeeds another one has the same, with what was spent.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='spending.spendingpolicy')),
                ('user', models.ForeignKey(help_text='The user it acts for. It is rejected while this user is inactive.', on_delete=django.db.models.deletion.CASCADE, related_name='access_tokens', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-created_at', '-id'],
                'permissions': [('revoke_accesstoken', 'Can disable access tokens')],
            },
        ),
        migrations.CreateModel(
            name='TokenUse',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('address', models.CharField(help_text='An IPv4 address or a /64 network of IPv6; empty: all others, or unknown.', max_length=64)),
                ('first_at', models.DateTimeField()),
                ('last_at', models.DateTimeField()),
                ('requests', models.PositiveBigIntegerField()),
                ('forbidden', models.PositiveBigIntegerField(help_text='Answered with 403, except by spending rules.')),
                ('refused', models.PositiveBigIntegerField(help_text='Refused by spending rules.')),
                ('rejected', models.PositiveBigIntegerField(help_text='Answered with 401, as it was disabled, expired or from another network.')),
                ('token', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='tokens.accesstoken')),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.AddIndex(
            model_name='accesstoken',
            index=models.Index(models.F('expires_at'), condition=models.Q(('expires_at__isnull', False)), name='token_expiry'),
        ),
        migrations.AddIndex(
            model_name='accesstoken',
            index=models.Index(models.F('family'), models.F('id'), condition=models.Q(('family', ''), _negated=True), name='token_family'),
        ),
        migrations.AddIndex(
            model_name='accesstoken',
            index=models.Index(relayer_service.database.prefixes.CaseFolded('name'), models.F('id'), name='token_name_prefix'),
        ),
        migrations.AddIndex(
            model_name='accesstoken',
            index=models.Index(relayer_service.database.prefixes.CaseFolded('key'), models.F('id'), name='token_key_prefix'),
        ),
        migrations.AddIndex(
            model_name='tokenuse',
            index=models.Index(models.F('last_at'), name='token_use_by_age'),
        ),
        migrations.AddConstraint(
            model_name='tokenuse',
            constraint=models.UniqueConstraint(fields=('token', 'address'), name='token_use_once'),
        ),
    ]
