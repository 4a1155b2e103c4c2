from django.db import migrations

from relayer_service.storage.operations import AddTrigramIndex


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('relayers', '0029_running_relayers'),
    ]

    operations = [
        AddTrigramIndex('relayer', 'relayer_parts', ['identifier', 'name', 'address', 'network']),
    ]
