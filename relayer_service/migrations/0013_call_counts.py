"""Calls to nodes and through relayers, in one table; `rpc` and `relayers` copy their counts to it."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('relayer_service', '0012_job_skipped'),
    ]

    operations = [
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
    ]
