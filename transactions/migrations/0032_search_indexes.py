from django.db import migrations, models

from relayer_service.database.operations import AddIndexConcurrently
from relayer_service.database.prefixes import CaseFolded


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('transactions', '0031_metadata_pairs'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(CaseFolded('idempotency_key'), models.F('sequence'), condition=models.Q(('idempotency_key__isnull', False)), name='transaction_key_prefix'),
        ),
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(CaseFolded('external_id'), models.F('sequence'), condition=models.Q(('external_id__isnull', False)), name='transaction_external_id'),
        ),
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(fields=['requester', '-sequence'], name='transaction_requester'),
        ),
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(fields=['created_at'], name='transaction_created'),
        ),
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(condition=models.Q(('finished_at__isnull', False)), fields=['relayer', '-finished_at', '-sequence', 'kind'], name='transaction_relayer_finished'),
        ),
    ]
