from django.db import migrations

from relayer_service.database.operations import ValidateConstraint


class Migration(migrations.Migration):

    dependencies = [
        ('transactions', '0038_final_status'),
    ]

    operations = [
        ValidateConstraint(model_name='transaction', name='transaction_status'),
    ]
