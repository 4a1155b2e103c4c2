"""If it fails as a key is duplicated again, `migrate transactions 0015` and `migrate` remove the key once more."""

from django.db import migrations, models

from relayer_service.database.operations import AddUniqueIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('transactions', '0016_one_key_per_account'),
    ]

    operations = [
        AddUniqueIndexConcurrently(
            model_name='transaction',
            constraint=models.UniqueConstraint(condition=models.Q(('idempotency_key__isnull', False)), fields=('lane', 'idempotency_key'), name='transaction_lane_key'),
        ),
    ]
