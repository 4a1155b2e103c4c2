from django.db import migrations, models

from relayer_service.database.operations import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('relayer_service', '0015_changes_of_tokens'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='auditentry',
            index=models.Index(models.F('actor_key'), models.F('at'), models.F('id'), condition=models.Q(models.Q(('actor_key', ''), _negated=True), ('action', 'acted')), name='audit_actions_of_token'),
        ),
    ]
