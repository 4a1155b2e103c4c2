import django.core.validators
import django.db.models.deletion
import django.utils.timezone
import relayer_service.database.prefixes
import rpc.models.fee_tokens
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [
        ('rpc', '0001_initial'),
        ('rpc', '0002_console'),
        ('rpc', '0003_feed_bounds_default'),
        ('rpc', '0004_help_texts'),
        ('rpc', '0005_refresh_permission'),
        ('rpc', '0006_symbol_help_text'),
        ('rpc', '0007_call_durations'),
        ('rpc', '0008_counts_without_relayer'),
        ('rpc', '0009_move_call_counts'),
    ]

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
    ]

    operations = [
        migrations.CreateModel(
            name='FeeToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('network', models.CharField(max_length=64, validators=[rpc.models.fee_tokens.validate_network])),
                ('symbol', models.CharField(help_text='Exact symbol used in fee_token (case-sensitive).', max_length=32, validators=[django.core.validators.RegexValidator('^[^\\s\\x00-\\x1f\\x7f]+\\Z', 'spaces and control characters are not allowed')])),
                ('address', rpc.models.fee_tokens.AddressField(help_text="The token's contract, from which its decimals are read once.", max_length=42)),
                ('enabled', models.BooleanField(default=True, help_text='Fees cannot be quoted in a disabled token.')),
                ('margin_bps', models.PositiveIntegerField(default=0, help_text='Added to every fee, in basis points (hundredths of a percent).', validators=[django.core.validators.MaxValueValidator(10000)], verbose_name='margin')),
                ('max_spread_bps', models.PositiveIntegerField(default=200, help_text='In basis points. The token has no price if its sources differ by more.', validators=[django.core.validators.MaxValueValidator(10000)], verbose_name='maximum spread')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('decimals', models.PositiveSmallIntegerField(editable=False, null=True)),
                ('rate_text', models.TextField(blank=True, editable=False, verbose_name='last rate')),
                ('rated_at', models.DateTimeField(editable=False, null=True, verbose_name='last price read')),
                ('rate_error', models.TextField(blank=True, editable=False, verbose_name='last error')),
                ('rate_details', models.JSONField(default=list, editable=False)),
            ],
            options={
                'ordering': ['network', 'symbol'],
                'permissions': [('refresh_feetoken', 'Can read the prices of fee tokens now')],
                'indexes': [models.Index(relayer_service.database.prefixes.CaseFolded('symbol'), models.F('id'), name='fee_token_symbol_prefix'), models.Index(relayer_service.database.prefixes.CaseFolded('address'), models.F('id'), name='fee_token_address_prefix')],
                'constraints': [models.UniqueConstraint(fields=('network', 'symbol'), name='fee_token_symbol_once_a_network'), models.UniqueConstraint(fields=('network', 'address'), name='fee_token_address_once_a_network')],
            },
        ),
        migrations.CreateModel(
            name='PriceSource',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('fixed', 'Fixed rate'), ('chainlink_usd', 'Chainlink, token/USD with native/USD'), ('chainlink_native', 'Chainlink, token/native'), ('uniswap_v2', 'Uniswap v2 pair')], max_length=32)),
                ('rate_text', models.CharField(blank=True, help_text='Tokens for one native coin, as a decimal number.', max_length=200, verbose_name='rate')),
                ('rate_set_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('max_age_seconds', models.PositiveIntegerField(blank=True, help_text='In seconds. An older fixed rate is stale.', null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(2147483647)], verbose_name='age limit')),
                ('feed', rpc.models.fee_tokens.AddressField(blank=True, help_text="The feed of the token's price, in USD or in the native coin.", max_length=42)),
                ('heartbeat_seconds', models.PositiveIntegerField(blank=True, help_text='In seconds, as published for the feed. An answer is stale if it is older by more than a tenth of this or a minute, whichever is longer.', null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(2147483647)], verbose_name='heartbeat')),
                ('native_feed', rpc.models.fee_tokens.AddressField(blank=True, help_text="The feed of the native coin's price in USD.", max_length=42)),
                ('native_heartbeat_seconds', models.PositiveIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(2147483647)], verbose_name='heartbeat of the native feed')),
                ('sequencer_feed', rpc.models.fee_tokens.AddressField(blank=True, help_text="The feed that reports whether a rollup's sequencer is up. By default that of the network, if any.", max_length=42)),
                ('sequencer_grace_seconds', models.PositiveIntegerField(default=3600, help_text='In seconds. Prices are stale for this long after the sequencer is up again.', validators=[django.core.validators.MaxValueValidator(2147483647)], verbose_name='grace after an outage')),
                ('pair', rpc.models.fee_tokens.AddressField(blank=True, help_text='The pair of the token and the wrapped native coin.', max_length=42)),
                ('wrapped_native', rpc.models.fee_tokens.AddressField(blank=True, help_text='The contract of the wrapped native coin in the pair.', max_length=42)),
                ('min_liquidity_text', models.CharField(blank=True, help_text="In the native coin's smallest unit (wei). A pair that holds less has no price.", max_length=78, validators=[rpc.models.fee_tokens.validate_amount], verbose_name='minimum liquidity')),
                ('feed_bounds', models.JSONField(db_default={}, default=dict, editable=False)),
                ('token', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='sources', to='rpc.feetoken')),
            ],
            options={
                'ordering': ['pk'],
            },
        ),
    ]
