from django.db import migrations

from relayer_service.database.operations import AddTrigramIndex


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('relayers', '0001_squashed_0034_tags'),
    ]

    operations = [
        AddTrigramIndex('relayer', 'relayer_parts', ['identifier', 'name', 'address', 'network']),
    ]
