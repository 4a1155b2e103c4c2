from django.db import migrations, models

from relayer_service.database.operations import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('relayers', '0009_top_ups'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='relayer',
            index=models.Index(models.F('funding_relayer'), condition=models.Q(('funding_relayer__isnull', False)), name='relayer_funded'),
        ),
    ]
