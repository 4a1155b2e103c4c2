from django.db import migrations, models

from relayer_service.database.operations import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('transactions', '0009_requesters_of_actions'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(models.F('lane'), models.F('due_at'), models.F('sequence'), condition=models.Q(('status', 'pending')), name='transaction_due'),
        ),
    ]
