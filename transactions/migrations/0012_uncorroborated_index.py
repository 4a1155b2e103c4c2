from django.db import migrations, models

from relayer_service.database.operations import AddIndexConcurrently


class Migration(migrations.Migration):
    # Indexes are built concurrently, which no transaction can do.
    atomic = False

    dependencies = [
        ('transactions', '0011_corroborated_at'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='transaction',
            index=models.Index(models.F('finished_at'), condition=models.Q(('corroborated_at', None), models.Q(('status__in', ('failed', 'canceled', 'expired')), models.Q(('payload_version__gt', 1), ('status', 'confirmed')), _connector='OR')), name='transaction_uncorroborated'),
        ),
    ]
