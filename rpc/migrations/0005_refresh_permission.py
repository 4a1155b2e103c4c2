from django.db import migrations

from relayer_service.storage import permissions


class Migration(migrations.Migration):

    dependencies = [*permissions.DEPENDENCIES, ('rpc', '0004_help_texts')]

    operations = [
        migrations.AlterModelOptions(
            name='feetoken',
            options={'ordering': ['network', 'symbol'], 'permissions': [('refresh_feetoken', 'Can read the prices of fee tokens now')]},
        ),
        permissions.grant_to_holders('rpc', 'feetoken', 'refresh_feetoken', 'Can read the prices of fee tokens now', of='rpc.change_feetoken'),
    ]
