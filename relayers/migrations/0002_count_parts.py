from django.db import migrations

from relayer_service.storage.counting import CountMore


class Migration(migrations.Migration):

    dependencies = [
        ('relayers', '0001_initial'),
        ('relayer_service', '0001_initial'),
    ]

    operations = [
        CountMore('relayer'),
    ]
