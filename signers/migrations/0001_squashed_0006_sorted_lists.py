import django.utils.timezone
import relayer_service.database.prefixes
import relayer_service.storage.encryption
import relayer_service.storage.resources
from django.db import migrations, models

from relayer_service.storage.counting import CountRows


class Migration(migrations.Migration):

    replaces = [
        ('signers', '0001_initial'),
        ('signers', '0002_count_parts'),
        ('signers', '0003_console'),
        ('signers', '0004_help_texts'),
        ('signers', '0005_id_title'),
        ('signers', '0006_sorted_lists'),
    ]

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('relayer_service', '0001_squashed_0020_audit_log_entries'),
    ]

    operations = [
        migrations.CreateModel(
            name='Signer',
            fields=[
                ('sequence', models.BigAutoField(primary_key=True, serialize=False)),
                ('identifier', models.CharField(default=relayer_service.storage.resources.new_identifier, help_text='The ID used by API clients. Cannot be changed after creation.', max_length=255, unique=True, validators=[relayer_service.storage.resources.validate_identifier], verbose_name='ID')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('type', models.CharField(choices=[('plain', 'Local key (plain)'), ('provider_a_kms', 'AWS KMS (provider_a_kms)'), ('provider_b_kms', 'Google Cloud KMS (provider_b_kms)'), ('provider_c', 'HashiCorp Vault KV (provider_c)'), ('provider_c_transit', 'HashiCorp Vault Transit (provider_c_transit)'), ('provider_d', 'Turnkey (provider_d)'), ('provider_e', 'Coinbase CDP (provider_e)')], help_text='Cannot be changed after the signer is created.', max_length=32)),
                ('config', models.JSONField(default=dict, editable=False, help_text='The config without its secrets, as returned by the API.')),
                ('secrets', relayer_service.storage.encryption.EncryptedJSONField(editable=False)),
                ('verified_identity', models.CharField(blank=True, editable=False, help_text='The address or public key found by the last verification.', max_length=128)),
                ('verified_at', models.DateTimeField(editable=False, null=True)),
                ('last_error', models.CharField(blank=True, db_default='', default='', editable=False, help_text='The error of the last call to it; empty if the call succeeded.', max_length=200)),
            ],
            options={
                'ordering': ['sequence'],
                'abstract': False,
                'indexes': [models.Index(relayer_service.database.prefixes.CaseFolded('identifier'), models.F('sequence'), name='signer_identifier_prefix'), models.Index(relayer_service.database.prefixes.CaseFolded('verified_identity'), models.F('sequence'), name='signer_identity_prefix'), models.Index(models.F('type'), models.F('sequence'), name='signer_type'), models.Index(models.F('verified_at'), models.F('sequence'), name='signer_verified')],
                'constraints': [models.CheckConstraint(condition=models.Q(('type__in', ['plain', 'provider_a_kms', 'provider_b_kms', 'provider_c', 'provider_c_transit', 'provider_d', 'provider_e'])), name='signer_type_known'), models.CheckConstraint(condition=models.Q(('identifier', ''), _negated=True), name='signer_identifier_not_empty')],
            },
        ),
        CountRows('Signer'),
    ]
