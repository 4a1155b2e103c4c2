import django.db.models.deletion
from django.db import migrations, models

from relayer_service.database.operations import SetFillFactor


class Migration(migrations.Migration):

    replaces = [
        ('spending', '0001_initial'),
        ('spending', '0002_fill_factor'),
    ]

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
    ]

    operations = [
        migrations.CreateModel(
            name='SpendingPolicy',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('rules', models.JSONField(default=dict, help_text='As `rules.validate_rules` returns them.')),
            ],
            options={
                'verbose_name_plural': 'spending policies',
            },
        ),
        migrations.CreateModel(
            name='SpendingLimit',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='`value`, `gas`, or `token:` and the address of a contract.', max_length=64)),
                ('hours', models.JSONField(default=dict)),
                ('policy', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='limits', to='spending.spendingpolicy')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('policy', 'name'), name='spending_limit_name')],
            },
        ),
        SetFillFactor('spendinglimit', 50),
    ]
