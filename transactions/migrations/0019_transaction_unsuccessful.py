"""The final status of transactions that are not confirmed, for indexes: `status` changes too often to be in one.

A trigger writes it for processes of the last release. That of SQLite follows in 0022, which remakes the table.
"""

from typing import Any

from django.db import migrations, models

CREATE = """
CREATE FUNCTION transactions_set_unsuccessful() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.unsuccessful := NEW.status;
  RETURN NEW;
END $$;
CREATE TRIGGER transaction_unsuccessful BEFORE INSERT OR UPDATE OF status, unsuccessful ON transactions_transaction
FOR EACH ROW WHEN (NEW.status IN ('failed', 'canceled', 'expired') AND NEW.unsuccessful IS NULL)
EXECUTE FUNCTION transactions_set_unsuccessful();
"""
DROP = """
DROP TRIGGER transaction_unsuccessful ON transactions_transaction;
DROP FUNCTION transactions_set_unsuccessful();
"""


def create_trigger(apps: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(CREATE)


def drop_trigger(apps: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(DROP)


class Migration(migrations.Migration):

    dependencies = [
        ('transactions', '0018_transaction_requester'),
    ]

    operations = [
        migrations.AddField(
            model_name='transaction',
            name='unsuccessful',
            field=models.CharField(editable=False, help_text='Its final status, unless it is confirmed.', max_length=16, null=True),
        ),
        migrations.RunPython(create_trigger, drop_trigger),
    ]
