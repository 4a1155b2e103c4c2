from django.db import migrations, models

from relayer_service.database.operations import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('relayers', '0022_used_up_soon'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='relayer',
            index=models.Index(models.F('network'), models.F('failing_since'), models.F('sequence'), condition=models.Q(('failed_checks', 0), ('system_disabled', True)), name='relayer_other_address'),
        ),
    ]
