from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('transactions', '0017_unique_keys_of_accounts'),
    ]

    operations = [
        migrations.AddField(
            model_name='transaction',
            name='requester',
            field=models.CharField(blank=True, db_default='', default='', editable=False, max_length=32),
        ),
    ]
