"""The cards of webhooks in the overview."""

from django.http import HttpRequest
from django.urls import reverse

from notifications import attention
from notifications.models import Delivery, DeliveryHour
from notifications.panels import COLOURS
from relayer_service.admin.attention import read_once
from relayer_service.admin.charts import LAST_DAY, Period, bars, range_links
from relayer_service.admin.dashboard import Card, alarm, link
from relayer_service.admin.dates import exact

NEEDED = ["notifications.view_notification", "notifications.view_delivery"]


def webhooks(request: HttpRequest) -> Card | None:
    if not request.user.has_perms(NEEDED):
        return None
    page = reverse("admin:notifications_delivery_changelist")
    counts = read_once(request, attention.numbers)
    if not any(counts.values()):
        return Card("Webhooks", empty="No delivery is pending, and no webhook fails.", url=page)
    rows = [
        [link("Pending", f"{page}?state__exact=pending"), f"{counts['pending']:,}"],
        [link("Failed in the last day", f"{page}?state__exact=failed"), alarm(counts["failed"])],
        [link("Failing webhooks", attention.list_of("failing")), alarm(counts["failing"])],
        [link("Webhooks that returned 410", attention.list_of("gone")), alarm(counts["gone"])],
    ]
    return Card("Webhooks", rows, url=page)


def deliveries(request: HttpRequest) -> Card | None:
    if not request.user.has_perms(NEEDED):
        return None
    period = Period.from_request(request)
    counts = {state: [0] * period.count for state in COLOURS}
    rows = DeliveryHour.objects.filter(hour__gte=period.start)
    times = []
    for hour, state, number, counted_at in rows.values_list("hour", "state", "deliveries", "counted_at"):
        counts[Delivery.State(state)][period.position(hour)] += number
        times.append(counted_at)
    title = f"Deliveries of the last {period.range.title}"
    page = reverse("admin:notifications_delivery_changelist")
    if not times:
        return Card(title, empty="Not counted yet: the worker counts them every minute.", url=page)
    ranges = range_links(request, period.range)
    if not any(map(any, counts.values())):
        return Card(title, empty="There were no deliveries.", url=page, ranges=ranges, anchor="deliveries")
    totals = [[link(state.label, f"{page}?state__exact={state}"), f"{sum(counts[state]):,}"] for state in COLOURS]
    datasets = [bars(state.label, counts[state], colour) for state, colour in COLOURS.items()]
    note = f"Counted every minute, last at {exact(max(times))}."
    if period.range != LAST_DAY:
        note += " Days before the last one are counted every half hour."
    return Card(
        title,
        totals,
        url=page,
        chart=period.chart(datasets),
        note=note,
        ranges=ranges,
        anchor="deliveries",
    )
