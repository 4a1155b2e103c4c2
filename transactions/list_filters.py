"""Query parameters of the list of a relayer's transactions."""

from django.db.models import QuerySet

from relayer_service.api.filters import ListFilter
from transactions.models import IS_IN_STATUS, Attempt, Status, Transaction


def with_hash(rows: QuerySet[Transaction], value: str) -> QuerySet[Transaction]:
    """Return the transaction with an attempt of this hash, also of an earlier one that was replaced."""
    return rows.filter(pk__in=Attempt.objects.filter(hash=value.lower()).values("transaction"))


LIST_FILTERS = {
    "status": ListFilter(
        "Only transactions in this status.", lambda rows, value: rows.filter(IS_IN_STATUS[value]), Status.values
    ),
    "hash": ListFilter("Only the transaction with this hash, of any of its attempts.", with_hash),
}
