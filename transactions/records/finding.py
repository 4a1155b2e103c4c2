"""Finding transactions by what clients and staff know of them, in a table of any size.

Each list has an order with an index. What is rare is found by an index of its own; what many rows have, by reading the
list in its order, as its first page is full soon.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.apps import apps
from django.db.models import BigIntegerField, Exists, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from relayer_service.database.nul import has_nul
from relayer_service.database.prefixes import is_folded
from relayer_service.evm import checksummed
from relayer_service.storage.newest import newest_with
from transactions.models import Attempt, MetadataPair, Transaction

MANY = 1_000
SEPARATOR = ":"
# Rows are numbered in the order of their times, but for those that were accepted within minutes of each other.
MARGIN = timedelta(minutes=10)
FIRST, LAST = datetime.min.replace(tzinfo=UTC) + MARGIN, datetime.max.replace(tzinfo=UTC) - MARGIN
FINISHED = "-finished_at"

Rows = QuerySet[Transaction]


def with_hash(rows: Rows, value: str) -> Rows:
    """Return the transaction with an attempt of this hash, also of an earlier one that was replaced."""
    return rows.filter(pk__in=Attempt.objects.filter(hash=value.lower()).values("transaction"))


def by_text(column: str) -> Callable[[Rows, str], Rows]:
    """Return what finds the rows with a value in a column that has an index for prefixes."""
    return lambda rows, value: rows.filter(_text_condition(rows, column, value))


def _text_condition(rows: Rows, column: str, value: str) -> Q:
    if has_nul(value):
        return Q(pk__in=[])
    # A range: SQLite would put the value of an equality into the expression of the index, which then serves nothing.
    exact = Q(**{f"{column}__gte": value, f"{column}__lte": value})
    return _few_or(rows, exact & is_folded(column, value), exact)


def metadata_condition(rows: Rows, text: str) -> Q:
    """Return the condition that rows of this list have a pair of metadata, written as `key:value`."""
    key, _, value = text.partition(SEPARATOR)
    if has_nul(text):
        return Q(pk__in=[])
    pairs = MetadataPair.objects.filter(key=key, value=value)
    return _few_or(rows, Q(pk__in=pairs.values("transaction")), Q(Exists(pairs.filter(transaction=OuterRef("pk")))))


def with_receiver(rows: Rows, address: str) -> Rows:
    """Return the rows whose receiver, or recipient or spender of ERC-20 tokens, has this address."""
    to, recipient = (_text_condition(rows, column, checksummed(address)) for column in ("to", "recipient"))
    return rows.filter(to | recipient)


def requested_with(rows: Rows, token: str) -> Rows:
    """Return what was requested with a token, those that it succeeds and those that succeed it, newest first."""
    key = token.split("_")[1] if token.startswith("rms_") else token
    if not key or has_nul(key):
        return rows.none()
    tokens: Any = apps.get_model("tokens", "AccessToken")
    found = tokens.objects.filter(key=key).first()
    return newest_with(rows, "requester", found.family_key if found else key)


def created_from(rows: Rows, moment: datetime) -> Rows:
    earlier = Transaction.objects.filter(created_at__lt=max(moment, FIRST) - MARGIN).order_by("-created_at")
    return rows.filter(created_at__gte=moment, pk__gt=_number(earlier, 0))


def created_before(rows: Rows, moment: datetime) -> Rows:
    later = Transaction.objects.filter(created_at__gte=min(moment, LAST) + MARGIN).order_by("created_at")
    return rows.filter(created_at__lt=moment, pk__lt=_number(later, BigIntegerField.MAX_BIGINT))


def finished_from(rows: Rows, moment: datetime) -> Rows:
    return _newest_finished(rows.filter(finished_at__gte=moment))


def finished_before(rows: Rows, moment: datetime) -> Rows:
    return _newest_finished(rows.filter(finished_at__lt=moment))


def is_by_finish(rows: Rows) -> bool:
    return FINISHED in rows.query.order_by


def _newest_finished(rows: Rows) -> Rows:
    """Sort by when they finished, as the index does; within one relayer, if the rows are sorted by theirs."""
    relayer = ["relayer_id"] if "relayer_id" in rows.query.order_by else []
    return rows.order_by(*relayer, FINISHED, "-pk")


def _number(rows: Rows, otherwise: int) -> Coalesce:
    """Return the number of the first of some rows, which the database reads once."""
    return Coalesce(Subquery(rows.values("pk")[:1]), Value(otherwise, BigIntegerField()))


def _few_or(rows: Rows, indexed: Q, scanned: Q) -> Q:
    """Return the condition for the rows of a list that an index finds: their keys, or if they are many, `scanned`."""
    keys = list(rows.order_by().filter(indexed).values_list("pk", flat=True)[:MANY])
    return Q(pk__in=keys) if len(keys) < MANY else scanned
