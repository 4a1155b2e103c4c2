"""How PostgreSQL stores transactions: updates that touch no index, and foreign keys that deletions find by one."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
from django.db import connection

from tests.transactions.lab import Lab

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True), pytest.mark.both_engines]

FLUSH = "SELECT pg_stat_force_next_flush()"
# An update for which its page has no room says nothing about indexes: old versions stay while any snapshot sees them.
UPDATES = "SELECT n_tup_upd - n_tup_newpage_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = %s"
# Without an index of all rows that leads with the column; NULL refers to nothing.
UNINDEXED = """
SELECT conrelid::regclass || '.' || attname FROM pg_constraint
JOIN pg_attribute ON attrelid = conrelid AND attnum = conkey[1]
WHERE contype = 'f' AND NOT EXISTS (
  SELECT FROM pg_index WHERE indrelid = conrelid AND indkey[0] = conkey[1] AND indisvalid
  AND (indpred IS NULL OR pg_get_expr(indpred, indrelid) = '(' || attname || ' IS NOT NULL)')
)
"""
MAY_BE_UNINDEXED = {
    "transactions_transaction.lane_id": "lanes are never deleted",
    "relayers_relayer.spending_id": "policies are deleted by `prune_policies`, which reads these tables for each",
    "tokens_accesstoken.spending_id": "as the other",
}


def rows(sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())


@pytest.mark.parametrize("table", ["transactions_transaction", "transactions_lane"])
def test_at_least_half_of_the_updates_touch_no_index(lab: Lab, table: str) -> None:
    """Of a transaction, those to submitted and mined; the others write its nonce and its end."""
    before = counted(table)
    for number in range(3):
        lab.send(f"transaction {number}")
    lab.turn()
    lab.block(15)
    assert {status for _, status in lab.statuses()} == {"confirmed"}
    updates, hot = (now - then for now, then in zip(counted(table), before, strict=True))
    assert updates <= 2 * hot


def counted(table: str) -> tuple[Any, ...]:
    """Return the counts with those of all connections, which otherwise add theirs after up to ten seconds."""
    pool: Any = connection.pool  # type: ignore[attr-defined]  # of PostgreSQL
    with ExitStack() as idle:
        for _ in range(pool.get_stats()["pool_available"]):
            idle.enter_context(pool.connection()).execute(FLUSH)
    rows(FLUSH)
    return rows(UPDATES, table)[0]


def test_a_row_is_deleted_without_reading_a_table_through() -> None:
    assert {name for (name,) in rows(UNINDEXED)} == MAY_BE_UNINDEXED.keys()
