from django.db import migrations, models

from relayer_service.database.operations import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('relayers', '0021_relayers_by_nodes'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='relayer',
            index=models.Index(models.F('network'), models.F('sequence'), condition=models.Q(('balance_is_low', False), ('runway_is_short', True)), name='relayer_used_up_soon'),
        ),
    ]
