from django.db import migrations, models

from relayer_service.storage import permissions


class Migration(migrations.Migration):

    dependencies = [
        *permissions.DEPENDENCIES,
        ('notifications', '0014_failing_by_error'),
        ('relayers', '0019_problems_by_network'),
        ('signers', '0006_sorted_lists'),
        ('spending', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='NodeCalls',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('up_to_5_ms', models.PositiveIntegerField(editable=False, null=True)),
                ('up_to_10_ms', models.PositiveIntegerField(editable=False, null=True)),
                ('up_to_25_ms', models.PositiveIntegerField(editable=False, null=True)),
                ('up_to_50_ms', models.PositiveIntegerField(editable=False, null=True)),
                ('up_to_100_ms', models.PositiveIntegerField(editable=False, null=True)),
                ('up_to_250_ms', models.PositiveIntegerField(editable=False, null=True)),
                ('up_to_500_ms', models.PositiveIntegerField(editable=False, null=True)),
                ('up_to_1000_ms', models.PositiveIntegerField(editable=False, null=True)),
                ('up_to_2500_ms', models.PositiveIntegerField(editable=False, null=True)),
                ('up_to_5000_ms', models.PositiveIntegerField(editable=False, null=True)),
                ('above_5000_ms', models.PositiveIntegerField(editable=False, null=True)),
                ('node', models.CharField(help_text='The keyed hash of its URL.', max_length=16)),
                ('slot', models.DateTimeField(db_index=True, help_text='The start of the ten minutes.')),
                ('calls', models.PositiveBigIntegerField(default=0)),
                ('failed', models.PositiveBigIntegerField(default=0)),
                ('slowest_milliseconds', models.PositiveBigIntegerField(default=0)),
                ('head', models.PositiveBigIntegerField(null=True)),
                ('head_at', models.DateTimeField(help_text='The time of that block, or else when it was first seen.', null=True)),
                ('answered_at', models.DateTimeField(null=True)),
                ('failed_at', models.DateTimeField(null=True)),
                ('last_fault', models.CharField(default='', max_length=200)),
            ],
            options={
                'default_permissions': (),
            },
        ),
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
        migrations.AlterModelOptions(
            name='relayer',
            options={'ordering': ['sequence'], 'permissions': [('pause_relayer', 'Can pause and resume relayers'), ('check_relayer', 'Can check relayers now'), ('take_out_node', 'Can take nodes out and put them back')]},
        ),
        permissions.grant_to_holders('relayers', 'relayer', 'take_out_node', 'Can take nodes out and put them back', of='relayers.change_relayer'),
        migrations.AddField(
            model_name='relayer',
            name='node_keys',
            field=models.CharField(blank=True, db_default='?', default='', editable=False, max_length=2000),
        ),
        migrations.AddConstraint(
            model_name='nodecalls',
            constraint=models.UniqueConstraint(fields=('node', 'slot'), name='node_calls_once_a_slot'),
        ),
    ]
