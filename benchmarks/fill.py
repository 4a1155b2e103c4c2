"""Rows by SQL that both engines understand: so many signers and relayers, a notification for a thousand of them."""

import sqlite3
from contextlib import closing

from benchmarks.databases import SQLITE_FILE, Database

NUMBERS = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {rows})"
# As the worker leaves it: one row a bucket.
FOLD = [
    """
    CREATE TEMPORARY TABLE sums AS
    SELECT list_name, bucket, sum(rows) AS rows FROM relayer_service_rowdelta GROUP BY list_name, bucket
    """,
    "DELETE FROM relayer_service_rowdelta",
    "INSERT INTO relayer_service_rowdelta (list_name, bucket, rows) SELECT list_name, bucket, rows FROM sums",
    "DROP TABLE sums",
]
SIGNERS = """
INSERT INTO signers_signer (sequence, identifier, type, config, secrets, created_at, verified_identity)
{numbers}
SELECT n, 'signer-' || n, 'provider_a_kms',
       json('{{"key_id": "key-' || n || '", "region": "eu-central-1"}}'), '1:AAAA', CURRENT_TIMESTAMP, ''
FROM numbers
"""
NOTIFICATIONS = """
INSERT INTO notifications_notification (sequence, identifier, type, url, created_at)
{numbers}
SELECT n, 'hook-' || n, 'webhook', 'https://hooks.example.com', CURRENT_TIMESTAMP FROM numbers
WHERE n <= 1 + {rows} / 1000
"""
# A signer for ten of them, every second with a notification, and what is optional here and there.
RELAYERS = """
INSERT INTO relayers_relayer (
  sequence, identifier, created_at, name, network, network_type, address, signer_id, notification_id, paused,
  masked_rpc_urls, policies
)
{numbers}
SELECT
  n, 'relayer-' || n, CURRENT_TIMESTAMP, 'Relayer ' || n, 'sepolia', 'evm',
  '0xabcdefabcdefabcdefabcdefabcdefabc' || (1000000 + n % 9000000), 1 + (n - 1) / 10,
  CASE WHEN n % 2 = 0 THEN 1 + n / 1000 END, n % 5 = 0,
  json(CASE WHEN n % 3 = 0 THEN '[{{"url": "https://rpc.example.com/***", "weight": 100}}]' ELSE '[]' END),
  json(CASE WHEN n % 4 > 0 THEN
    '{{"eip1559_pricing": true, "gas_price_cap": 340282366920938463463374607431768211455, "min_balance": 1}}'
  ELSE '{{}}' END)
FROM numbers
"""
HEALTH = """
INSERT INTO relayers_relayerhealth (
  relayer_id, due_at, network, system_disabled, disabled_reason_type, disabled_reason_details, balance_text,
  balance_is_low, runway_is_short, failed_checks, good_checks, balance_hours, minimum_hours, outflow_days
)
SELECT
  sequence, CURRENT_TIMESTAMP, network, sequence % 7 = 0,
  CASE WHEN sequence % 7 = 0 THEN 'NonceSyncFailed' ELSE '' END,
  CASE WHEN sequence % 7 = 0 THEN 'The nonce could not be read from any node.' ELSE '' END,
  '', FALSE, FALSE, 0, 0, json('[]'), json('[]'), json('[]')
FROM relayers_relayer
"""
# PostgreSQL alone has the tables of stock.
STOCK = [
    """
    INSERT INTO stock_signer (id, type, config, created_at)
    SELECT identifier, type, config, created_at + sequence * interval '1 us' FROM signers_signer
    """,
    "INSERT INTO stock_notification (id) SELECT identifier FROM notifications_notification",
    """
    INSERT INTO stock_relayer (
      id, created_at, name, network, network_type, address, signer_id, notification_id, paused, system_disabled,
      disabled_reason, custom_rpc_urls, policies
    )
    SELECT
      relayer.identifier, relayer.created_at + relayer.sequence * interval '1 us', name, relayer.network, network_type,
      address, signer.identifier, notification.identifier, paused, system_disabled,
      CASE WHEN system_disabled
        THEN jsonb_build_object('details', disabled_reason_details, 'type', disabled_reason_type) END,
      nullif(masked_rpc_urls, '[]'), nullif(policies, '{}')
    FROM relayers_relayer AS relayer
    JOIN relayers_relayerhealth ON relayer_id = relayer.sequence
    JOIN signers_signer AS signer ON signer.sequence = signer_id
    LEFT JOIN notifications_notification AS notification ON notification.sequence = notification_id
    """,
]
TABLES = ("signers_signer", "notifications_notification", "relayers_relayer")


def fill(database: Database, rows: int, *, stock: bool = False) -> None:
    """Add the rows to an empty database, and leave it as it is some time later: counts folded, statistics there."""
    if database.url:
        _fill_postgresql(database, rows, stock=stock)
    else:
        _fill_sqlite(database, rows)


def _statements(rows: int) -> list[str]:
    numbers = NUMBERS.format(rows=rows)
    return [each.format(numbers=numbers, rows=rows) for each in (SIGNERS, NOTIFICATIONS, RELAYERS, HEALTH)]


def _fill_postgresql(database: Database, rows: int, *, stock: bool) -> None:
    with database.connect() as connection:
        for statement in _statements(rows) + (STOCK if stock else []):
            connection.execute(statement)
        for table in TABLES:
            connection.execute(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'sequence'), max(sequence)) FROM {table}"
            )
        for statement in FOLD:
            connection.execute(statement)
        connection.execute("VACUUM ANALYZE")
        # So that it does not disturb the first measurement.
        connection.execute("CHECKPOINT")


def _fill_sqlite(database: Database, rows: int) -> None:
    with closing(sqlite3.connect(database.folder / SQLITE_FILE, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN IMMEDIATE")
        for statement in [*_statements(rows), *FOLD]:
            connection.execute(statement)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
