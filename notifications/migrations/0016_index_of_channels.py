from django.db import migrations, models

from relayer_service.database.operations import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('notifications', '0015_channels'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='notification',
            index=models.Index(models.F('sequence'), condition=models.Q(('type', 'webhook'), _negated=True), name='notification_channels'),
        ),
    ]
