from django.db import migrations

from relayer_service.storage import permissions


class Migration(migrations.Migration):

    dependencies = [*permissions.DEPENDENCIES, ('tokens', '0011_relayers_by_tag')]

    operations = [
        migrations.AlterModelOptions(
            name='accesstoken',
            options={'ordering': ['-created_at', '-id'], 'permissions': [('revoke_accesstoken', 'Can disable access tokens')]},
        ),
        permissions.grant_to_holders(
            'tokens', 'accesstoken', 'revoke_accesstoken', 'Can disable access tokens', of='tokens.change_accesstoken'
        ),
    ]
