from django.db import migrations, models

from relayer_service.database.operations import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('relayer_service', '0014_sign_in_address_names'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='auditentry',
            index=models.Index(models.F('actor_key'), models.F('at'), models.F('id'), condition=models.Q(models.Q(('actor_key', ''), _negated=True), models.Q(('action', 'acted'), _negated=True)), name='audit_changes_of_token'),
        ),
    ]
