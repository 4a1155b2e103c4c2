from django.db import migrations, models

from relayer_service.database.operations import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('relayers', '0028_columns_of_last_release'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='relayer',
            index=models.Index(models.F('sequence'), condition=models.Q(('paused', False), models.Q(('address', ''), _negated=True)), name='relayer_running'),
        ),
    ]
