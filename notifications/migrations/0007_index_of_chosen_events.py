from django.db import migrations, models

from relayer_service.database.operations import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('notifications', '0006_events'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='notification',
            index=models.Index(models.F('sequence'), condition=models.Q(('events', 'relayer.* transaction.*'), _negated=True), name='notification_own_events'),
        ),
    ]
