"""Large columns of transactions: lists show none of them, and never have those of all rows in memory."""

from collections.abc import Iterator
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from transactions.models import Transaction

# The maximum of `data` in a list, in bytes.
MAX_LISTED_DATA = 1_024
LARGE_COLUMNS = ("data", "revert_data", "last_attempt__raw", "mined_attempt__raw")
# Rows that are read at a time.
CHUNK = 50


def fetch_large(rows: QuerySet[Any]) -> Iterator[Transaction]:
    """Yield rows that are read a few at a time; in a transaction, as a pooler may else switch the connection."""
    with transaction.atomic(savepoint=False):
        yield from rows.iterator(chunk_size=CHUNK)


def drop_large(row: Transaction) -> Transaction:
    """Return a row without the bytes that a list does not show."""
    row.data = row.revert_data = b""
    for attempt in (row.last_attempt, row.mined_attempt):
        if attempt is not None:
            attempt.raw = b""
    return row
