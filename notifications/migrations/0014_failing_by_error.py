from django.db import migrations, models

from relayer_service.database.operations import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('notifications', '0013_failing_error'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='notification',
            index=models.Index(models.F('failing_error'), models.F('failing_since'), models.F('sequence'), condition=models.Q(('enabled', True), ('failing_since__isnull', False), ('gone_at', None)), name='notification_failing_by_error'),
        ),
    ]
