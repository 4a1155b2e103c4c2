"""Drop the indexes that large tables kept for releases before 0.1; updates of a transaction touched all of them."""

from typing import Any

from django.db import migrations

from relayer_service.database.operations import RemoveIndexConcurrently

INDEXES = [
    "transaction_open", "transaction_relayer_status", "transaction_expiry", "transaction_unsuccessful",
    "transaction_due", "transaction_uncorroborated",
]


class RemoveUndeclaredIndex(RemoveIndexConcurrently):
    """Removes an index that no model declares any more, where there is one."""

    def state_forwards(self, app_label: str, state: Any) -> None: ...

    def database_backwards(self, *args: Any) -> None: ...


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('transactions', '0039_validate_final_status'),
    ]

    operations = [RemoveUndeclaredIndex('transaction', name) for name in INDEXES]
