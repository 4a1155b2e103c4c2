"""The cards of webhooks in the overview."""

from django.http import HttpRequest
from django.urls import reverse

from notifications import attention
from notifications.models import Delivery, DeliveryHour
from notifications.panels import COLOURS
from relayer_service.admin.attention import read_once
from relayer_service.admin.charts import HOURS, LastDay, bars
from relayer_service.admin.dashboard import Card, alarm, link
from relayer_service.admin.dates import exact

NEEDED = ["notifications.view_notification", "notifications.view_delivery"]


def webhooks(request: HttpRequest) -> Card | None:
    if not request.user.has_perms(NEEDED):
        return None
    page = reverse("admin:notifications_delivery_changelist")
    counts = read_once(request, attention.numbers)
    rows = [
        [link("Pending", f"{page}?state__exact=pending"), f"{counts['pending']:,}"],
        [link("Failed in the last day", f"{page}?state__exact=failed"), alarm(counts["failed"])],
        [link("Failing targets", attention.list_of("failing")), alarm(counts["failing"])],
        [link("Gone targets", attention.list_of("gone")), alarm(counts["gone"])],
    ]
    return Card("Webhooks", rows, url=page)


def deliveries(request: HttpRequest) -> Card | None:
    if not request.user.has_perms(NEEDED):
        return None
    day = LastDay()
    counts = {state: [0] * HOURS for state in COLOURS}
    counted = None
    for row in DeliveryHour.objects.filter(hour__gte=day.start):
        counts[Delivery.State(row.state)][day.position(row.hour)] += row.deliveries
        counted = row.counted_at
    title, page = "Deliveries of the last 24 hours", reverse("admin:notifications_delivery_changelist")
    if counted is None:
        return Card(title, empty="Not counted yet: the worker counts them every minute.", url=page)
    totals = [[link(state.label, f"{page}?state__exact={state}"), f"{sum(counts[state]):,}"] for state in COLOURS]
    datasets = [bars(state.label, counts[state], colour) for state, colour in COLOURS.items()]
    note = f"Counted every minute, last at {exact(counted)}."
    return Card(title, totals, url=page, chart=day.chart(datasets), note=note)
