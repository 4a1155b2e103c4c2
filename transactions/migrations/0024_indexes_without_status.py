from django.db import migrations, models

from relayer_service.database.operations import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('transactions', '0023_validate_status'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(models.F('lane'), models.F('nonce'), condition=models.Q(('finished_at', None)), name='transaction_unfinished'),
        ),
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(models.F('lane'), models.F('sequence'), condition=models.Q(('finished_at', None), ('nonce', None)), name='transaction_queue'),
        ),
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(models.F('lane'), models.F('due_at'), models.F('sequence'), condition=models.Q(('finished_at', None), ('nonce', None)), name='transaction_queue_due'),
        ),
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(models.F('lane'), models.F('valid_until'), condition=models.Q(('finished_at', None), ('nonce', None)), name='transaction_valid_until'),
        ),
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(models.F('finished_at'), condition=models.Q(('corroborated_at', None), ('finished_at__isnull', False), models.Q(('unsuccessful__isnull', False), ('payload_version__gt', 1), _connector='OR')), name='transaction_unverified'),
        ),
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(condition=models.Q(('finished_at', None), ('nonce', None)), fields=['relayer', '-sequence', 'kind'], name='transaction_relayer_queue'),
        ),
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(condition=models.Q(('finished_at', None), ('nonce__isnull', False)), fields=['relayer', '-sequence', 'kind'], name='transaction_relayer_in_flight'),
        ),
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(condition=models.Q(('finished_at__isnull', False), ('unsuccessful', None)), fields=['relayer', '-sequence', 'kind'], name='transaction_confirmed'),
        ),
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(condition=models.Q(('unsuccessful__isnull', False)), fields=['unsuccessful', 'relayer', '-sequence', 'kind'], name='transaction_relayer_ended'),
        ),
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(condition=models.Q(('unsuccessful__isnull', False)), fields=['unsuccessful', '-sequence'], name='transaction_ended'),
        ),
    ]
