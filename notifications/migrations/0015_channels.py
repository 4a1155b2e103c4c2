from django.db import migrations, models

import notifications.models
from relayer_service.database.operations import AddConstraintNotValid


class Migration(migrations.Migration):

    dependencies = [
        ('notifications', '0014_failing_by_error'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='notification',
            name='notification_type_known',
        ),
        migrations.AlterField(
            model_name='notification',
            name='type',
            field=models.CharField(choices=[('webhook', 'Webhook'), ('slack', 'Slack'), ('email', 'E-mail')], default='webhook', max_length=32),
        ),
        migrations.AlterField(
            model_name='notification',
            name='url',
            field=models.TextField(help_text='The URL that events are sent to.', validators=[notifications.models.validate_target], verbose_name='URL'),
        ),
        AddConstraintNotValid(
            model_name='notification',
            constraint=models.CheckConstraint(condition=models.Q(('type__in', ['webhook', 'slack', 'email'])), name='notification_type_known'),
        ),
    ]
