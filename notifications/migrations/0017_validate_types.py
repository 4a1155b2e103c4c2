from django.db import migrations

from relayer_service.database.operations import ValidateConstraint


class Migration(migrations.Migration):

    dependencies = [
        ('notifications', '0016_index_of_channels'),
    ]

    operations = [
        ValidateConstraint(model_name='notification', name='notification_type_known'),
    ]
