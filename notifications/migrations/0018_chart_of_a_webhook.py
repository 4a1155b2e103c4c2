from django.db import migrations, models

from relayer_service.database.operations import AddIndexConcurrently, RemoveIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('notifications', '0017_validate_types'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='delivery',
            index=models.Index(models.F('notification'), models.F('created_at'), models.F('state'), name='delivery_of_webhook'),
        ),
        RemoveIndexConcurrently(model_name='delivery', name='delivery_of_target'),
    ]
