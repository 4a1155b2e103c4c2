from django.db import migrations

from relayer_service.database.operations import ValidateConstraint


class Migration(migrations.Migration):

    dependencies = [
        ('relayers', '0010_funded_relayers'),
    ]

    operations = [
        ValidateConstraint(model_name='relayer', name='relayer_top_up_is_complete'),
    ]
