from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('transactions', '0035_search_by_recipient'),
    ]

    operations = [
        migrations.AlterField(
            model_name='transaction',
            name='reason_code',
            field=models.CharField(choices=[('funds', 'The balance does not cover it'), ('limit', 'A spending limit does not allow it now'), ('nonce_used', 'Its nonce was used, by none of its attempts')], editable=False, max_length=16, null=True),
        ),
    ]
