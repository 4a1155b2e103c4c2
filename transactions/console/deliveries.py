"""The panel of a transaction's webhook deliveries."""

from datetime import timedelta
from typing import Any

from django.db.models import BinaryField, F, Func, IntegerField, Q, QuerySet, Value
from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode

from notifications.console.filters import SUBJECT
from notifications.console.formatting import VARIANTS
from notifications.models import Delivery
from relayer_service.console.dates import exact
from relayer_service.console.overview.dashboard import label
from relayer_service.console.panels import Panel
from relayer_service.console.references import link
from transactions.models import Transaction

HEADERS = ["Delivery", "Event", "Webhook", "State", "Attempts", "Created"]
# Of its relayer, while the transaction was open: more are not searched for those of a transaction.
MAX_SEARCHED = 2_000
MAX_SHOWN = 50
# Characters of an ID: the page of a delivery has all.
ID_SHOWN = 12
# Between the clocks of a transaction and its deliveries.
SLACK = timedelta(minutes=1)


class BodyPosition(Func):
    """Where some bytes are in the body of a delivery, from 1; 0 if they are not."""

    function = "INSTR"
    output_field = IntegerField()

    def __init__(self, text: bytes) -> None:
        super().__init__(F("body"), Value(text, BinaryField()))

    def as_postgresql(self, compiler: Any, connection: Any) -> Any:
        self.source_expressions.reverse()
        return self.as_sql(compiler, connection, function="POSITION", arg_joiner=" IN ")


class Deliveries(Panel):
    template = "admin/transactions/deliveries.html"

    def may_view(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("notifications.view_delivery"))

    def is_shown(self, row: Transaction) -> bool:
        # The events of a deleted relayer cannot be found: they have its ID.
        return row.relayer is not None and row.kind == Transaction.Kind.REQUEST

    def context(self, request: HttpRequest, row: Transaction) -> dict[str, Any]:
        assert row.relayer is not None
        keys = searched_keys(row, row.relayer.identifier)
        rows = [
            [
                link(delivery, f"{delivery.identifier[:ID_SHOWN]}…"),
                delivery.event,
                link(delivery.notification),
                label(delivery.state, VARIANTS[delivery.state]),
                str(delivery.attempts_made),
                exact(delivery.created_at),
            ]
            for delivery in deliveries(row, keys)
        ]
        page = reverse("admin:notifications_delivery_changelist")
        return {
            "deliveries": {
                "table": {"headers": HEADERS, "rows": rows},
                "searched": f"{MAX_SEARCHED:,}" if len(keys) == MAX_SEARCHED else "",
                "all_url": f"{page}?{urlencode({SUBJECT: row.relayer.identifier})}",
            }
        }


def searched_keys(row: Transaction, subject: str) -> list[int]:
    """Return the deliveries about a relayer that were created while a transaction was open, by two indexes."""
    rows, ended_at = Delivery.objects.order_by("created_at", "id"), row.contradicted_at or row.finished_at
    first = rows.filter(created_at__gte=row.created_at - SLACK).values_list("pk", flat=True).first()
    found = Delivery.objects.filter(~Q(subject=""), subject=subject, pk__gte=first or 0)
    if ended_at is not None:
        last = rows.reverse().filter(created_at__lte=ended_at + SLACK).values_list("pk", flat=True).first()
        found = found.filter(pk__lte=last or 0)
    return list(found.order_by("pk").values_list("pk", flat=True)[:MAX_SEARCHED])


def deliveries(row: Transaction, keys: list[int]) -> QuerySet[Delivery]:
    """Return those of these deliveries whose event is about a transaction, the newest first."""
    found = Delivery.objects.filter(pk__in=keys).select_related("notification").defer("body")
    # Where `encode_body` writes it. Clients choose texts alone, in which quotation marks are escaped.
    start = f'"data":{{"id":"{row.identifier}"'.encode()
    found = found.alias(position=BodyPosition(start)).filter(position__gt=0)
    newest: QuerySet[Delivery] = found.order_by("-pk")[:MAX_SHOWN]
    return newest
