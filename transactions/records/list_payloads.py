"""Lists of transactions without their large columns, which are never in memory for all rows."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from relayer_service.api.pagination import CursorPagination
from relayer_service.api.resource_serializers import PageSerializer
from transactions.models import Transaction
from transactions.records import finding
from transactions.records.reasons import positions, status_reason
from transactions.records.representation import TransactionData, transaction_data

# The maximum of `data` in a list, in bytes.
MAX_LISTED_DATA = 1_024
LARGE_COLUMNS = ("data", "revert_data", "last_attempt__raw", "mined_attempt__raw")
# Rows that are read at a time.
CHUNK = 50


class TransactionPagination(CursorPagination):
    columns: tuple[str, ...] = ("sequence",)

    def read_rows(self, queryset: Any, view: Any) -> Iterable[Any]:
        if finding.is_by_finish(queryset):
            self.columns = ("finished_at", "sequence")
        return super().read_rows(queryset, view)

    def fetch(self, rows: QuerySet[Any], view: Any) -> Iterator[Transaction]:
        """Yield rows that are read a few at a time; in a transaction, as a pooler may else switch the connection."""
        with transaction.atomic(savepoint=False):
            yield from rows.iterator(chunk_size=CHUNK)

    def position_of(self, row: Transaction) -> Sequence[Any]:
        return [getattr(row, column) for column in self.columns]


class TransactionPageSerializer(PageSerializer):
    """A page of a relayer's transactions, without large columns."""

    def to_representation(self, data: Any) -> list[Any]:
        relayer = self.context["view"].relayer
        found: list[tuple[Transaction, TransactionData]] = []
        for row in data:
            row.relayer = relayer
            shown = transaction_data(row, "", relayer.identifier, row.lane.address)
            if shown["data_size"] > MAX_LISTED_DATA:
                shown["data"] = None
            drop_large(row)
            found.append((row, shown))
        place = positions([row for row, _ in found])
        for row, shown in found:
            shown["status_reason"] = status_reason(row, row.lane, place.get(row.pk)) or None
        return [shown for _, shown in found]


def drop_large(row: Transaction) -> None:
    row.data = row.revert_data = b""
    for attempt in (row.last_attempt, row.mined_attempt):
        if attempt is not None:
            attempt.raw = b""
