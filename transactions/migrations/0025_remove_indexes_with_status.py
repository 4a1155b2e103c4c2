"""Remove the indexes with `status`, unless the last release needs them: without, it reads the table at every turn.

A large table keeps them until the next release, or until they are dropped by hand (CHANGELOG.md, "Upgrading").
"""

from typing import Any

from django.db import migrations
from django.db.migrations.state import ProjectState as State

from relayer_service.database.operations import RemoveIndexConcurrently

# It is read through within some milliseconds.
SMALL_BYTES = 32 * 2**20


class RemoveUnlessLarge(RemoveIndexConcurrently):
    def database_forwards(self, app_label: str, schema_editor: Any, from_state: State, to_state: State) -> None:
        if schema_editor.connection.vendor == "postgresql":
            with schema_editor.connection.cursor() as cursor:
                cursor.execute("SELECT pg_table_size('transactions_transaction') > %s", [SMALL_BYTES])
                if cursor.fetchone()[0]:
                    print(f"\n    Once the last release has stopped: DROP INDEX CONCURRENTLY IF EXISTS {self.name};", end="")
                    return
        super().database_forwards(app_label, schema_editor, from_state, to_state)


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('transactions', '0024_indexes_without_status'),
    ]

    operations = [
        RemoveUnlessLarge(model_name='transaction', name='transaction_open'),
        RemoveUnlessLarge(model_name='transaction', name='transaction_relayer_status'),
        RemoveUnlessLarge(model_name='transaction', name='transaction_expiry'),
        RemoveUnlessLarge(model_name='transaction', name='transaction_unsuccessful'),
        RemoveUnlessLarge(model_name='transaction', name='transaction_due'),
        RemoveUnlessLarge(model_name='transaction', name='transaction_uncorroborated'),
    ]
