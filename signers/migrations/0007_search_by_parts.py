from django.db import migrations

from relayer_service.database.operations import AddTrigramIndex


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('signers', '0001_squashed_0006_sorted_lists'),
    ]

    operations = [
        AddTrigramIndex('signer', 'signer_parts', ['identifier', 'verified_identity']),
    ]
