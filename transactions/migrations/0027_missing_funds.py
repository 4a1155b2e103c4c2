from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('transactions', '0026_reason_codes'),
    ]

    operations = [
        migrations.AddField(
            model_name='lane',
            name='missing_text',
            field=models.CharField(blank=True, db_default='', default='', help_text='In wei, if that is known.', max_length=78, verbose_name='missing funds'),
        ),
        migrations.AddField(
            model_name='topup',
            name='refused_by',
            field=models.TextField(blank=True, db_default='', default='', editable=False, help_text='The funding relayer and its spending rule.'),
        ),
    ]
