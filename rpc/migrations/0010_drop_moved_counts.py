"""Drop the tables of counts that moved to `relayer_service_callcount`. A new database has none of them."""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('rpc', '0001_squashed_0009_move_call_counts'),
    ]

    operations = [
        migrations.RunSQL(f'DROP TABLE IF EXISTS {table}', migrations.RunSQL.noop)
        for table in ('rpc_callcount', 'rpc_callhour')
    ]
