"""What the console shows besides signers and relayers: troubles, webhooks, deliveries, transactions, statistics.

By SQL that both engines understand, with the functions `ago(seconds)` and `md5(text)`, added where they are missing.
A list has a full page of every kind at the smallest size too: a page of fifty rows is not compared with one of ten.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

from benchmarks.databases import SQLITE_FILE, Database
from benchmarks.fill import FOLD, NUMBERS

DELIVERIES_PER_RELAYER = 5
# What is inserted without the indexes of these tables, which are added afterwards, in a part of the time.
BULK = ("notifications_delivery", "transactions_transaction", "transactions_attempt", "transactions_metadatapair")
DROP_INDEX = "DROP INDEX {}"
# The relayer and the lane of a tenth of the transactions, and of the calls of a month.
BUSY = 250
DAYS = 31
HOURS = DAYS * 24
SLOTS = 12
NODES = 150
ACCOUNTS = 200
AGO = """
CREATE FUNCTION ago(seconds numeric) RETURNS timestamptz LANGUAGE sql STABLE
AS 'SELECT now() - seconds * interval ''1 second'''
"""
# An outage of the network of most relayers. The newer half of them has one signer; most have been checked.
RELAYERS = """
UPDATE relayers_relayer SET
  signer_id = CASE WHEN sequence > {rows} / 2 THEN 1 ELSE signer_id END,
  notification_id = CASE WHEN sequence > {rows} / 2 THEN 1 ELSE notification_id END,
  network = CASE WHEN sequence % 15 = 0 THEN 'mainnet' WHEN sequence % 16 = 0 THEN 'my-chain' ELSE network END,
  address = CASE WHEN sequence % 20 = 3 THEN '' ELSE address END,
  node_keys = CASE WHEN sequence % 3 = 0 THEN '0000000000000' || (100 + sequence / 3 % {nodes}) ELSE '' END,
  funding_relayer_id = CASE WHEN sequence % 50 = 1 THEN {busy} END,
  top_up_minimum_text = CASE WHEN sequence % 50 = 1 THEN '1000' ELSE '' END,
  top_up_target_text = CASE WHEN sequence % 50 = 1 THEN '2000' ELSE '' END,
  top_up_daily_limit_text = CASE WHEN sequence % 50 = 1 THEN '9000' ELSE '' END
"""
HEALTH = """
UPDATE relayers_relayerhealth SET
  network = (SELECT network FROM relayers_relayer WHERE sequence = relayer_id),
  checked_at = CASE WHEN relayer_id % 20 <> 1 THEN ago(relayer_id) END,
  nonce = CASE WHEN relayer_id % 20 <> 1 THEN relayer_id END,
  balance_text = CASE WHEN relayer_id % 20 <> 1 THEN '1000000000000000000' ELSE '' END,
  balance_is_low = relayer_id % 11 = 0,
  low_since = CASE WHEN relayer_id % 11 = 0 THEN ago(relayer_id) END,
  runway_is_short = relayer_id % 13 = 0,
  failed_checks = CASE WHEN relayer_id % 15 = 0 OR relayer_id % 16 = 0 THEN 0 ELSE 2 END,
  failing_since = CASE WHEN relayer_id % 15 = 0 OR relayer_id % 16 = 0 THEN NULL ELSE ago(600 + relayer_id % 60) END,
  due_at = ago(relayer_id % 180 - 60)
"""
SIGNERS = """
UPDATE signers_signer SET
  verified_identity = '0xabcdefabcdefabcdefabcdefabcdefabc' || (1000000 + sequence % 9000000),
  type = CASE WHEN sequence % 20 = 0 THEN 'provider_d' ELSE type END
"""
WEBHOOKS = """
INSERT INTO notifications_notification (
  sequence, identifier, type, url, created_at, failing_since, failing_error, gone_at, enabled
)
{numbers}
SELECT n, 'target-' || n, 'webhook', 'https://hooks-' || n || '.example.com', ago(0),
       CASE WHEN n % 4 = 0 THEN ago(n % 86400) END,
       CASE WHEN n % 4 = 0 THEN 'answered with ' || (500 + n % 20) ELSE '' END,
       CASE WHEN n % 4 = 1 THEN ago(0) END, n % 4 <> 2
FROM numbers WHERE n > 1 + {rows} / 1000 AND n <= {rows} / 2
"""
AUDIT_LOG = """
INSERT INTO relayer_service_auditentry (
  at, object_type, object_pk, object_id, action, actor_kind, actor, actor_key, request_id, address, reason, changes
)
{numbers}
SELECT ago(n), 'relayer', CASE WHEN n % 10 = 0 THEN '{busy}' ELSE CAST(n AS text) END,
       'relayer-' || CASE WHEN n % 10 = 0 THEN {busy} ELSE n END, 'changed',
       CASE WHEN n % 3 = 0 THEN 'token' ELSE 'user' END, 'somebody-' || (n % 10), '', 'request-' || n,
       '127.0.0.1', '', json('{{"name": ["before", "after"]}}')
FROM numbers
"""
# Over the last days: of five one is for the first target, of a hundred one failed and one is pending.
DELIVERIES = """
INSERT INTO notifications_delivery (
  identifier, notification_id, event, subject, body, state, attempts_made, response_code, error, created_at,
  attempted_at, due_at
)
{numbers}
SELECT
  'msg_' || md5(CAST(n AS text)), CASE WHEN n % 5 = 0 THEN 1 ELSE 2 + n % ({rows} / 2 - 1) END,
  CASE n % 3 WHEN 0 THEN 'relayer.disabled' ELSE 'relayer.enabled' END, 'relayer-' || (1 + n % {rows}),
  CAST('{{"type": "relayer.enabled"}}' AS {bytes}),
  CASE WHEN n % 100 = 1 THEN 'pending' WHEN n % 100 = 0 THEN 'failed' ELSE 'delivered' END, 1,
  CASE WHEN n % 100 = 0 THEN 500 ELSE 204 END, CASE WHEN n % 100 = 0 THEN 'answered with 500' ELSE '' END,
  ago({count} - n), ago({count} - n), CASE WHEN n % 100 = 1 THEN ago(-3600) END
FROM numbers
"""
# A relayer of ten sends; of fifty lanes one is held, and one waits for coins.
LANES = """
INSERT INTO transactions_lane (
  id, chain_id, address, relayer_id, due_at, epoch, searches, holds, held_since, database_identity, waiting,
  waiting_since, waiting_details, head_since
)
{numbers}
SELECT n, 11155111, '0xabcdefabcdefabcdefabcdefabcdefabc' || (1000000 + n), n, ago(0), 0, 0,
       json(CASE WHEN n % 50 = 0 THEN '{{"operator": {{"since": "2026-01-01T00:00:00+00:00", "details": "Why."}}}}'
            ELSE '{{}}' END),
       CASE WHEN n % 50 = 0 THEN ago(n) END, '', CASE WHEN n % 50 = 1 THEN 'funds' ELSE '' END,
       CASE WHEN n % 50 = 1 THEN ago(600 + n) END, '', ago(n)
FROM numbers
"""
# Of a hundred one is pending, one submitted, one mined and one failed; the others are confirmed.
SENT = "n % 100 <> 1"
TRANSACTIONS = """
INSERT INTO transactions_transaction (
  sequence, identifier, created_at, epoch, kind, requested_by, request_digest, status, status_reason, version, due_at,
  tries, requested_action, action_reason, "to", value_text, data, pricing, speed, gas_price_text, max_fee_text,
  max_priority_fee_text, valid_until, nonce, sent_at, submitted_at, mined_at, finished_at, block_number, block_hash,
  succeeded, gas_used, effective_gas_price_text, contract_address, revert_data, claim_released, lane_id, relayer_id,
  last_attempt_id, mined_attempt_id, external_id, idempotency_key, requester, metadata
)
{numbers}
SELECT
  n, 'transaction-' || n, ago(({count} - n) * 10), 0, 'request', 'somebody', '',
  CASE n % 100 WHEN 1 THEN 'pending' WHEN 2 THEN 'submitted' WHEN 3 THEN 'mined' WHEN 4 THEN 'failed'
  ELSE 'confirmed' END,
  '', 1, ago(0), 0, '', '', '0x70997970C51812dc3A010C7d01b50e0d17dc79C8', '1', CAST('' AS {bytes}), 'speed', 'fast',
  '', '', '', ago(-3600), CASE WHEN {sent} THEN n END, ago(0), ago(0), ago(0),
  CASE WHEN n % 100 NOT IN (1, 2, 3) THEN ago(({count} - n) * 10) END, CASE WHEN {sent} THEN n END, '',
  CASE WHEN {sent} THEN n % 100 <> 4 END, CASE WHEN {sent} THEN 21000 END,
  CASE WHEN {sent} THEN '1000000000' ELSE '' END,
  '', CAST('' AS {bytes}), false, CASE WHEN n % 10 = 0 THEN {busy} ELSE 1 + n % {lanes} END,
  CASE WHEN n % 10 = 0 THEN {busy} ELSE 1 + n % {lanes} END, CASE WHEN {sent} THEN n END,
  CASE WHEN n % 100 > 2 OR n % 100 = 0 THEN n END, 'order-' || n, 'key-' || n, 'token-' || (n % 50),
  CAST('{{"order": "' || n || '", "shop": "' || (n % 100) || '"}}' AS {json})
FROM numbers
"""
ATTEMPTS = """
INSERT INTO transactions_attempt (
  id, number, purpose, epoch, nonce, hash, raw, gas_limit, gas_price_text, max_fee_text, max_priority_fee_text,
  max_cost_text, signed_at, broadcasts, first_broadcast_at, last_broadcast_at, accepted_at, outcome, error,
  minimum_price_text, lane_id, transaction_id
)
{numbers}
SELECT n, 1, 'send', 0, n, '0x' || md5(CAST(n AS text)) || md5(CAST(-n AS text)), CAST('raw' AS {bytes}), 21000, '',
       '2000000000', '1000000000', '1', ago(0), 1, ago(0), ago(0), ago(0), 'accepted', '', '',
       CASE WHEN n % 10 = 0 THEN {busy} ELSE 1 + n % {lanes} END, n
FROM numbers WHERE {sent}
"""
STATUS_CHANGES = """
INSERT INTO transactions_statuschange (transaction_id, version, from_status, to_status, at, reason)
{numbers}
SELECT n, 1, '', 'pending', ago(0), '' FROM numbers
"""
TOP_UPS = """
INSERT INTO transactions_topup (
  relayer_id, state, reason, amount_text, balance_text, block, created_at, failures, due_at
)
{numbers}
SELECT n, 'blocked', 'Relayer 250 has no coins.', '1000', '1', 1, ago(n), 0, ago(-60) FROM numbers WHERE n % 50 = 1
"""
COUNTED = """
  kind, subject, start, method, outcome, calls, slowest_milliseconds, last_at, last_fault, up_to_5_ms, up_to_10_ms,
  up_to_25_ms, up_to_50_ms, up_to_100_ms, up_to_250_ms, up_to_500_ms, up_to_1000_ms, up_to_2500_ms, up_to_5000_ms,
  above_5000_ms
"""
CALLS = f"""
INSERT INTO relayer_service_callcount ({COUNTED})
{{numbers}}
SELECT 'relayer', '{BUSY}', ago(n * 3600), 'feeEstimate', 'ok', 540, 90, ago(0), '',
       0, 0, 0, 300, 240, 0, 0, 0, 0, 0, 0 FROM numbers
UNION ALL
SELECT 'relayer', '{BUSY}', ago(n * 3600), 'feeEstimate', '-32010', 24, 90, ago(0), '',
       0, 0, 0, 12, 12, 0, 0, 0, 0, 0, 0 FROM numbers
UNION ALL
SELECT 'relayers', '', ago(n * 3600), '', 'ok', 900, 90, ago(0), '', 0, 0, 0, 500, 400, 0, 0, 0, 0, 0, 0 FROM numbers
UNION ALL
SELECT 'relayers', '', ago(n * 3600), '', '-32010', 20, 90, ago(0), '', 0, 0, 0, 10, 10, 0, 0, 0, 0, 0, 0 FROM numbers
"""
DELIVERY_HOURS = """
INSERT INTO notifications_deliveryhour (hour, state, deliveries, counted_at)
{numbers}
SELECT ago(n * 3600), 'delivered', 900, ago(0) FROM numbers
UNION ALL
SELECT ago(n * 3600), 'failed', 9, ago(0) FROM numbers
"""
NODE_CALLS = f"""
INSERT INTO relayer_service_callcount ({COUNTED}, head, head_at)
{{numbers}}
SELECT 'node', '0000000000000' || (100 + n % {NODES}), ago(n / {NODES} * 600), '', 'ok', 600, 90, ago(0), '',
       0, 0, 0, 500, 99, 0, 0, 0, 0, 0, 0, n, ago(0)
FROM numbers
"""
USERS = """
INSERT INTO auth_user (
  id, username, password, is_superuser, first_name, last_name, email, is_staff, is_active, date_joined
)
{numbers}
SELECT n + 1000, 'user-' || n, '', false, '', '', '', true, true, ago(n) FROM numbers
"""
MEMBERS = """
INSERT INTO auth_user_groups (user_id, group_id)
{numbers}
SELECT n + 1000, (SELECT min(id) FROM auth_group) FROM numbers
"""
# Each is inserted so many times; {bytes} and {json} are types of the engine.
FIXED = {
    CALLS: HOURS,
    DELIVERY_HOURS: HOURS,
    NODE_CALLS: NODES * SLOTS,
    USERS: ACCOUNTS,
    MEMBERS: ACCOUNTS,
}


def fill_console(database: Database, rows: int, transactions: int) -> None:
    """Add to a database that is filled with relayers what the console shows besides."""
    if database.url:
        with database.connect() as connection:
            connection.execute(AGO)
            # An index of a constraint stays.
            found = connection.execute(
                "SELECT quote_ident(indexname), indexdef FROM pg_indexes WHERE tablename = ANY(%s)"
                " AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexname::regclass)",
                [list(BULK)],
            )
            indexes = dict(found.fetchall())
            with connection.transaction():
                for statement in (
                    *map(DROP_INDEX.format, indexes),
                    *_statements(rows, transactions, "bytea", "jsonb"),
                ):
                    connection.execute(statement)
            # Foreign keys are checked at the end of a transaction.
            for statement in indexes.values():
                connection.execute(statement)
            connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")
        return
    with closing(sqlite3.connect(database.folder / SQLITE_FILE, isolation_level=None)) as connection:
        now = datetime.now(UTC).replace(tzinfo=None)
        connection.create_function("ago", 1, lambda seconds: str(now - timedelta(seconds=seconds)))
        connection.create_function(
            "md5", 1, lambda text: hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
        )
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN IMMEDIATE")
        found = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
            f" AND tbl_name IN ({', '.join('?' * len(BULK))})",
            BULK,
        )
        indexes = dict(found.fetchall())
        filling = _statements(rows, transactions, "blob", "text")
        for statement in (*map(DROP_INDEX.format, indexes), *filling, *indexes.values()):
            connection.execute(statement)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _statements(rows: int, transactions: int, bytes_type: str, json_type: str) -> Iterator[str]:
    lanes = rows // 10 + BUSY
    counts = {
        RELAYERS: 0,
        HEALTH: 0,
        SIGNERS: 0,
        WEBHOOKS: rows,
        AUDIT_LOG: rows * 2 + 40,
        DELIVERIES: rows * DELIVERIES_PER_RELAYER,
        LANES: lanes,
        TRANSACTIONS: transactions,
        ATTEMPTS: transactions,
        STATUS_CHANGES: transactions,
        TOP_UPS: rows,
        **FIXED,
    }
    for statement, count in counts.items():
        yield statement.format(
            numbers=NUMBERS.format(rows=count),
            rows=rows,
            count=count,
            lanes=lanes,
            nodes=NODES,
            busy=BUSY,
            bytes=bytes_type,
            json=json_type,
            sent=SENT,
        )
    yield _balances()
    yield from FOLD


def _balances() -> str:
    """Return the statement that sets the balances of the busy relayer, as a month of health checks leaves them."""
    hour = int(datetime.now(UTC).timestamp()) // 3600 * 3600
    ages = [*range(0, 24, 1), *range(24, 8 * 24, 6), *range(8 * 24, HOURS, 24)]
    balances = json.dumps([[hour - age * 3600, str(10**18 + age)] for age in reversed(ages)])
    outflows = json.dumps([[hour // 86400 * 86400 - day * 86400, str(10**15)] for day in range(DAYS - 1, -1, -1)])
    return (
        f"UPDATE relayers_relayerhealth SET balance_hours = json('{balances}'), minimum_hours = json('{balances}'), "
        f"outflow_days = json('{outflows}') WHERE relayer_id = {BUSY}"
    )
