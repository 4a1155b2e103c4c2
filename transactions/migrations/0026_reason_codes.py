from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('transactions', '0025_remove_indexes_with_status'),
    ]

    operations = [
        migrations.AddField(
            model_name='transaction',
            name='reason_code',
            field=models.CharField(choices=[('funds', 'The balance does not cover it'), ('nonce_used', 'Its nonce was used, by none of its attempts')], editable=False, max_length=16, null=True),
        ),
    ]
