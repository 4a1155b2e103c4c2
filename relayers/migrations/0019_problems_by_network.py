from django.db import migrations, models

from relayer_service.database.operations import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('relayers', '0018_starts_of_problems'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='relayer',
            index=models.Index(models.F('network'), models.F('system_disabled'), models.F('failing_since'), models.F('sequence'), condition=models.Q(('failed_checks__gt', 0)), name='relayer_check_failures'),
        ),
        AddIndexConcurrently(
            model_name='relayer',
            index=models.Index(models.F('network'), models.F('low_since'), models.F('sequence'), condition=models.Q(('balance_is_low', True)), name='relayer_low_by_network'),
        ),
    ]
