from django.db import migrations, models

from relayer_service.database.operations import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('relayers', '0020_nodes'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='relayer',
            index=models.Index(models.F('network'), models.F('node_keys'), models.F('sequence'), name='relayer_nodes'),
        ),
    ]
