from django.db import migrations

from relayer_service.database.operations import AddTrigramIndex


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('notifications', '0001_squashed_0018_chart_of_a_webhook'),
    ]

    operations = [
        # Staff who do not see whole URLs search without them.
        AddTrigramIndex('notification', 'notification_parts', ['identifier']),
        AddTrigramIndex('notification', 'notification_url_parts', ['identifier', 'url']),
    ]
