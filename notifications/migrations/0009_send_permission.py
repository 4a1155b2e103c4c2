from django.db import migrations

from relayer_service.storage import permissions


class Migration(migrations.Migration):

    dependencies = [*permissions.DEPENDENCIES, ('notifications', '0008_delivery_traceparent')]

    operations = [
        migrations.AlterModelOptions(
            name='delivery',
            options={'ordering': ['-id'], 'permissions': [('send_delivery', 'Can replay and retry deliveries and send test events')], 'verbose_name_plural': 'deliveries'},
        ),
        permissions.grant_to_holders(
            'notifications',
            'delivery',
            'send_delivery',
            'Can replay and retry deliveries and send test events',
            of='notifications.change_notification',
        ),
    ]
