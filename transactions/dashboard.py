"""The card of transactions on the overview."""

from datetime import timedelta

from django.db.models import Min
from django.http import HttpRequest
from django.urls import reverse

from relayer_service.admin.attention import read_once
from relayer_service.admin.dashboard import Card, alarm, label, link
from relayer_service.admin.dates import ago
from relayer_service.admin.lists import MAX_LISTED, counted
from relayer_service.storage.clock import DatabaseNow
from transactions.admin_filters import HELD, WAITING
from transactions.attention import lanes_url, may_view, numbers
from transactions.models import IS_IN_FLIGHT, IS_IN_STATUS, OPEN, Status, Transaction, Waiting
from transactions.panels import transactions_url

DAY = timedelta(days=1)


def transactions(request: HttpRequest) -> Card | None:
    """Return the card with open transactions by status, the oldest head of a lane, and lanes that do not send."""
    if not may_view(request):
        return None
    counts = read_once(request, numbers)
    page = reverse("admin:transactions_transaction_changelist")
    if not any(counts.values()) and confirmed() == "0":
        return Card("Transactions", empty="None is open, and none was confirmed in the last day.", url=page)
    waiting = sum(counts[each] for each in Waiting)
    rows = [
        *([link(status.label, transactions_url(None, status=status)), counted(counts[status])] for status in OPEN),
        [link("Confirmed in the last day", transactions_url(None, status=Status.CONFIRMED)), confirmed()],
        ["Oldest head of a lane", oldest_head()],
        [link("Held lanes", lanes_url(HELD)), alarm(counts[HELD])],
        [link("Waiting lanes", lanes_url(WAITING)), label(f"{waiting:,}", "warning") if waiting else "0"],
    ]
    return Card("Transactions", rows, url=page)


def confirmed() -> str:
    rows = Transaction.objects.filter(IS_IN_STATUS[Status.CONFIRMED], finished_at__gte=DatabaseNow() - DAY)
    count = rows.order_by()[:MAX_LISTED].count()
    return f"at least {count:,}" if count == MAX_LISTED else f"{count:,}"


def oldest_head() -> str:
    """Return since when the lane that has not moved for the longest waits for its next nonce to be mined."""
    oldest = Transaction.objects.filter(IS_IN_FLIGHT).aggregate(oldest=Min("lane__head_since"))["oldest"]
    return ago(oldest) if oldest else "-"
