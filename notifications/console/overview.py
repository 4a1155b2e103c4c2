"""What the overview shows of webhooks: problems by cause, the cards, and the steps to a first test event."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import Q, Value
from django.http import HttpRequest
from django.urls import reverse

from notifications.console.filters import TARGET_STATES
from notifications.console.panels import COLOURS
from notifications.delivery import counts, signing
from notifications.emitting import send_test_event
from notifications.events import NOTIFICATION_TEST
from notifications.models import Delivery, DeliveryHour, Notification
from notifications.writes import NotificationWrite
from relayer_service.console.dates import exact
from relayer_service.console.overview.attention import (
    LATE,
    UNKNOWN,
    AttentionSubject,
    Cause,
    Example,
    GroupedRows,
    counts_of,
    grouped,
    number_of,
    read_groups,
    read_once,
)
from relayer_service.console.overview.charts import LAST_DAY, Period, bars, range_links
from relayer_service.console.overview.dashboard import Card, alarm, link
from relayer_service.console.overview.getting_started import DEMO, Demo, Step, add_page, local_url
from relayer_service.database.clock import DatabaseNow

FAILING, GONE, LATE_DELIVERIES = (f"webhooks.{name}" for name in ("failing", "gone", "late"))
REASONS = {
    FAILING: "Deliveries are failing. See the errors in the delivery log.",
    GONE: "Nothing is sent to it. To resume, change its URL or replay a delivery.",
}
NEEDED = ["notifications.view_notification", "notifications.view_delivery"]
RECEIVER = "/demo/webhook"


def attention(request: HttpRequest) -> AttentionSubject | None:
    if not request.user.has_perm("notifications.view_notification"):
        return None
    may_view_late = request.user.has_perm("notifications.view_delivery")
    found = [rows for rows in read_groups(*queries()) if rows.kind != LATE_DELIVERIES or may_view_late]
    return AttentionSubject("webhooks", [cause(rows) for rows in found], examples)


def queries() -> list[Any]:
    failing, gone = (Notification.objects.filter(TARGET_STATES[name]) for name in ("failing", "gone"))
    # The deliveries of failing webhooks wait for their next attempt.
    working = Notification.objects.filter(TARGET_STATES["ok"]).order_by().values("pk")
    late = Delivery.objects.filter(due_at__lt=DatabaseNow() - LATE, notification__in=working)
    return [
        grouped(FAILING, failing, "failing_error", "failing_since", Value(1)),
        grouped(GONE, gone, Value(""), "gone_at", Value(1)),
        grouped(LATE_DELIVERIES, late, Value(""), "due_at", newest=UNKNOWN),
    ]


def cause(rows: GroupedRows) -> Cause:
    if rows.kind == LATE_DELIVERIES:
        page = f"{reverse('admin:notifications_delivery_changelist')}?state__exact=pending"
        return rows.cause("Late deliveries", "delivery", page, "Due for more than two minutes. Is a worker running?")
    if rows.kind == GONE:
        return rows.cause("Webhooks that returned 410", "webhook", list_of("gone"))
    if not rows.group:
        return rows.cause("Failing webhooks", "webhook", list_of("failing"))
    title = f"Failing webhooks: {rows.group.rstrip('.')}"
    return rows.cause(title, "webhook", list_of("failing", error=rows.group))


def numbers() -> dict[str, int]:
    targets = {name: Notification.objects.filter(TARGET_STATES[name]) for name in ("failing", "gone")}
    deliveries = {"pending": counts.pending(), "failed": counts.failed_in_a_day()}
    return counts_of({name: number_of(rows) for name, rows in {**targets, **deliveries}.items()})


def examples(causes: Sequence[Cause]) -> dict[str, Example]:
    rows = Notification.objects.only("identifier").in_bulk([each.first for each in causes if each.first])
    return {each.key: example(each.kind, rows[each.first]) for each in causes if each.first in rows}


def example(kind: str, target: Notification) -> Example:
    page = reverse("admin:notifications_notification_change", args=[target.pk])
    return Example(target.identifier, page, REASONS[kind])


def list_of(state: str, **query: str) -> str:
    return f"{reverse('admin:notifications_notification_changelist')}?{urlencode({'state': state} | query)}"


def webhooks_card(request: HttpRequest) -> Card | None:
    if not request.user.has_perms(NEEDED):
        return None
    page = reverse("admin:notifications_delivery_changelist")
    by_state = read_once(request, numbers)
    if not any(by_state.values()):
        return Card("Webhooks", empty="No delivery is pending, and no webhook fails.", url=page)
    rows = [
        [link("Pending", f"{page}?state__exact=pending"), f"{by_state['pending']:,}"],
        [link("Failed in the last day", f"{page}?state__exact=failed"), alarm(by_state["failed"])],
        [link("Failing webhooks", list_of("failing")), alarm(by_state["failing"])],
        [link("Webhooks that returned 410", list_of("gone")), alarm(by_state["gone"])],
    ]
    return Card("Webhooks", rows, url=page)


def deliveries_card(request: HttpRequest) -> Card | None:
    if not request.user.has_perms(NEEDED):
        return None
    period = Period.from_request(request)
    by_state = {state: [0] * period.count for state in COLOURS}
    rows = DeliveryHour.objects.filter(hour__gte=period.start)
    times = []
    for hour, state, number, counted_at in rows.values_list("hour", "state", "deliveries", "counted_at"):
        by_state[Delivery.State(state)][period.position(hour)] += number
        times.append(counted_at)
    title = f"Deliveries of the last {period.range.title}"
    page = reverse("admin:notifications_delivery_changelist")
    if not times:
        return Card(title, empty="Not counted yet: the worker counts them every minute.", url=page)
    ranges = range_links(request, period.range)
    if not any(map(any, by_state.values())):
        return Card(title, empty="There were no deliveries.", url=page, ranges=ranges, anchor="deliveries")
    totals = [[link(state.label, f"{page}?state__exact={state}"), f"{sum(by_state[state]):,}"] for state in COLOURS]
    datasets = [bars(state.label, by_state[state], colour) for state, colour in COLOURS.items()]
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


def webhook_step(request: HttpRequest) -> Step:
    return Step(
        "webhook",
        "Add a webhook",
        "The URL that receives events of your relayers.",
        ["notifications.add_notification"],
        Notification.objects.all(),
        lambda: add_page(
            "notifications_notification",
            identifier="webhook-1",
            **({"url": local_url(RECEIVER)} if settings.LOCAL else {}),
        ),
        lambda demo: demo.rows.update({"Webhook": demo_webhook()}),
    )


def demo_webhook() -> Notification:
    """Return the demo's webhook, created if it is missing."""
    found = Notification.objects.filter(identifier=DEMO).first()
    values = {"id": DEMO, "url": local_url(RECEIVER), "signing_key": signing.new_key()}
    return found or NotificationWrite.new(values).save()


def event_step(request: HttpRequest) -> Step:
    return Step(
        "test-event",
        "Send a test event",
        "Checks that the webhook receives events.",
        ["notifications.view_notification", "notifications.send_delivery"],
        # Any event that has arrived, too: old deliveries are deleted.
        Delivery.objects.filter(Q(event=NOTIFICATION_TEST.name) | Q(state=Delivery.State.DELIVERED)),
        event_page,
        set_up_test_event,
        needs="webhook",
    )


def event_page() -> str:
    """Return the page of the newest webhook, with the button."""
    newest = Notification.objects.order_by("-sequence").first()
    return reverse("admin:notifications_notification_change", args=[newest.pk]) if newest else ""


def set_up_test_event(demo: Demo) -> None:
    hook = demo.rows["Webhook"]
    found = Delivery.objects.filter(event=NOTIFICATION_TEST.name, notification=hook).first()
    demo.rows["Test event"] = found or send_test_event(hook)
