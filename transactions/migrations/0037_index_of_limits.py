from django.db import migrations, models

from relayer_service.database.operations import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('transactions', '0036_limit_reason'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(models.F('lane'), condition=models.Q(('finished_at', None), ('nonce', None), ('reason_code', 'limit')), name='transaction_over_limit'),
        ),
    ]
