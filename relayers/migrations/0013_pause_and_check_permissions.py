from django.db import migrations

from relayer_service.storage import permissions


class Migration(migrations.Migration):

    dependencies = [*permissions.DEPENDENCIES, ('relayers', '0012_private_nodes')]

    operations = [
        migrations.AlterModelOptions(
            name='relayer',
            options={'ordering': ['sequence'], 'permissions': [('pause_relayer', 'Can pause and resume relayers'), ('check_relayer', 'Can check relayers now')]},
        ),
        permissions.grant_to_holders('relayers', 'relayer', 'pause_relayer', 'Can pause and resume relayers', of='relayers.change_relayer'),
        permissions.grant_to_holders('relayers', 'relayer', 'check_relayer', 'Can check relayers now', of='relayers.change_relayer'),
    ]
