"""The newest rows of one owner, in a table with the rows of many, and some of them in their order."""

from typing import Any

from django.db.models import QuerySet


def newest_with(rows: QuerySet[Any], column: str, value: Any, *order: str) -> QuerySet[Any]:
    """Return the rows with this value, newest first; an index must have the column right before the key.

    The column is compared as a range, and sorted by: with an equality, PostgreSQL may read the primary key backwards
    instead of that index, past the newer rows of all others. `order` is another index's, with the column first.
    """
    return rows.filter(**{f"{column}__gte": value, f"{column}__lte": value}).order_by(*(order or (column, "-pk")))


def page_of(rows: QuerySet[Any], first: int, end: int) -> QuerySet[Any]:
    """Return rows of a sorted list; an index must have its order.

    Their keys are found first. With joins, PostgreSQL may read and sort all rows, if it expects few of them.
    """
    keys = rows.values("pk")[first:end]
    page = rows.all()
    # All that is filtered by, so that SQLite does not search by it again.
    page.query.clear_where()
    return page.filter(pk__in=keys)
