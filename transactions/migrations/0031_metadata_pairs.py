"""Pairs of metadata in rows of their own, to find transactions by. Triggers keep them, whichever release writes."""

from typing import Any

from django.db import migrations, models

POSTGRESQL = """
CREATE FUNCTION transactions_store_metadata_pairs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO transactions_metadatapair (transaction_id, key, value)
  SELECT NEW.sequence, pair.key, pair.value FROM jsonb_each_text(NEW.metadata) AS pair
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
CREATE FUNCTION transactions_delete_metadata_pairs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM transactions_metadatapair WHERE transaction_id = OLD.sequence;
  RETURN NULL;
END $$;
CREATE TRIGGER transaction_metadata_insert AFTER INSERT ON transactions_transaction
FOR EACH ROW WHEN (NEW.metadata IS NOT NULL) EXECUTE FUNCTION transactions_store_metadata_pairs();
CREATE TRIGGER transaction_metadata_delete AFTER DELETE ON transactions_transaction
FOR EACH ROW WHEN (OLD.metadata IS NOT NULL) EXECUTE FUNCTION transactions_delete_metadata_pairs();
"""
POSTGRESQL_DROP = """
DROP TRIGGER transaction_metadata_insert ON transactions_transaction;
DROP TRIGGER transaction_metadata_delete ON transactions_transaction;
DROP FUNCTION transactions_store_metadata_pairs();
DROP FUNCTION transactions_delete_metadata_pairs();
"""
SQLITE = (
    """
CREATE TRIGGER transaction_metadata_insert AFTER INSERT ON transactions_transaction WHEN NEW.metadata IS NOT NULL BEGIN
  INSERT OR IGNORE INTO transactions_metadatapair (transaction_id, key, value)
  SELECT NEW.sequence, pair.key, pair.value FROM json_each(NEW.metadata) AS pair;
END
""",
    """
CREATE TRIGGER transaction_metadata_delete AFTER DELETE ON transactions_transaction WHEN OLD.metadata IS NOT NULL BEGIN
  DELETE FROM transactions_metadatapair WHERE transaction_id = OLD.sequence;
END
""",
)
SQLITE_DROP = (
    "DROP TRIGGER IF EXISTS transaction_metadata_insert",
    "DROP TRIGGER IF EXISTS transaction_metadata_delete",
)


def create_triggers(apps: Any, schema_editor: Any) -> None:
    for statement in [POSTGRESQL] if schema_editor.connection.vendor == "postgresql" else SQLITE:
        schema_editor.execute(statement)


def drop_triggers(apps: Any, schema_editor: Any) -> None:
    for statement in [POSTGRESQL_DROP] if schema_editor.connection.vendor == "postgresql" else SQLITE_DROP:
        schema_editor.execute(statement)


class Migration(migrations.Migration):

    dependencies = [
        ('transactions', '0001_squashed_0037_index_of_limits'),
    ]

    operations = [
        migrations.CreateModel(
            name='MetadataPair',
            fields=[
                ('pk', models.CompositePrimaryKey('transaction', 'key', blank=True, editable=False, primary_key=True, serialize=False)),
                ('transaction', models.ForeignKey(db_constraint=False, db_index=False, on_delete=models.deletion.DO_NOTHING, related_name='+', to='transactions.transaction')),
                ('key', models.CharField(max_length=40)),
                ('value', models.CharField(max_length=500)),
            ],
            options={
                'indexes': [models.Index(fields=['key', 'value', '-transaction'], name='metadata_pair')],
            },
        ),
        migrations.RunPython(create_triggers, drop_triggers),
    ]
