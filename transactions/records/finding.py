"""Finding transactions by what clients and staff know of them, in a table of any size.

Each list has an order with an index. What is rare is found by an index of its own; what many rows have, by reading the
list in its order, as its first page is full soon.
"""

from datetime import datetime, timedelta
from typing import Any

from django.apps import apps
from django.db.models import BigIntegerField, Exists, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from relayer_service.database.prefixes import Scanned, starts_with
from relayer_service.evm import checksummed
from relayer_service.storage.newest import newest_with
from transactions.models import Attempt, MetadataPair, Transaction

MANY = 1_000
SEPARATOR = ":"
# Rows are numbered in the order of their times, but for those that were accepted within minutes of each other.
MARGIN = timedelta(minutes=10)
FINISHED = "-finished_at"

Rows = QuerySet[Transaction]


def with_hash(rows: Rows, value: str) -> Rows:
    """Return the transaction with an attempt of this hash, also of an earlier one that was replaced."""
    return rows.filter(pk__in=Attempt.objects.filter(hash=value.lower()).values("transaction"))


def with_text(rows: Rows, column: str, value: str) -> Rows:
    """Return the rows with this value in a column that has an index for prefixes."""
    found = Transaction.objects.filter(starts_with(column, value), **{column: value}).values_list("pk", flat=True)
    return _few_or(rows, found, Q(starts_with(column, value, Scanned), **{column: value}))


def with_metadata(rows: Rows, text: str) -> Rows:
    """Return the rows with a pair of metadata, written as `key:value`."""
    key, _, value = text.partition(SEPARATOR)
    pairs = MetadataPair.objects.filter(key=key, value=value)
    return _few_or(rows, pairs.values_list("transaction", flat=True), Exists(pairs.filter(transaction=OuterRef("pk"))))


def with_receiver(rows: Rows, address: str) -> Rows:
    return with_text(rows, "to", checksummed(address))


def requested_with(rows: Rows, key: str) -> Rows:
    """Return what was requested with a token, those that it succeeds and those that succeed it, newest first."""
    tokens: Any = apps.get_model("tokens", "AccessToken")
    token = tokens.objects.filter(key=key).first()
    return newest_with(rows, "requester", token.family_key if token else key)


def created_from(rows: Rows, moment: datetime) -> Rows:
    earlier = Transaction.objects.filter(created_at__lt=moment - MARGIN).order_by("-created_at")
    return rows.filter(created_at__gte=moment, pk__gt=_number(earlier, 0))


def created_before(rows: Rows, moment: datetime) -> Rows:
    later = Transaction.objects.filter(created_at__gte=moment + MARGIN).order_by("created_at")
    return rows.filter(created_at__lt=moment, pk__lt=_number(later, BigIntegerField.MAX_BIGINT))


def finished_from(rows: Rows, moment: datetime) -> Rows:
    return _newest_finished(rows.filter(finished_at__gte=moment))


def finished_before(rows: Rows, moment: datetime) -> Rows:
    return _newest_finished(rows.filter(finished_at__lt=moment))


def is_by_finish(rows: Rows) -> bool:
    """Return whether the rows are sorted by when they finished."""
    return FINISHED in rows.query.order_by


def _newest_finished(rows: Rows) -> Rows:
    """Sort by when they finished, as the index does; within one relayer, if the rows are sorted by theirs."""
    relayer = ["relayer_id"] if "relayer_id" in rows.query.order_by else []
    return rows.order_by(*relayer, FINISHED, "-pk")


def _number(rows: Rows, otherwise: int) -> Coalesce:
    """Return the number of the first of some rows, which the database reads once."""
    return Coalesce(Subquery(rows.values("pk")[:1]), Value(otherwise, BigIntegerField()))


def _few_or(rows: Rows, keys: Any, condition: Any) -> Rows:
    """Return the rows with these keys, or those that meet the condition if the keys are many."""
    found = list(keys[:MANY])
    return rows.filter(pk__in=found) if len(found) < MANY else rows.filter(condition)
