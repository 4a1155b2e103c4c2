from django.db import migrations, models

from relayer_service.database.operations import AddIndexConcurrently
from relayer_service.database.prefixes import CaseFolded


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('transactions', '0034_token_recipients'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(CaseFolded('recipient'), models.F('sequence'), condition=models.Q(('recipient__isnull', False)), name='transaction_recipient'),
        ),
    ]
