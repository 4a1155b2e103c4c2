"""The panel at the top of a webhook's page: its state, its pending deliveries, and buttons to act on them."""

from datetime import timedelta
from operator import attrgetter
from typing import Any

from django import forms
from django.contrib import messages
from django.db import transaction
from django.db.models import Count, Min, Q
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.html import format_html
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from notifications.console import formatting
from notifications.console.delivery_log import targets, warnings
from notifications.emitting import send_test_event
from notifications.jobs import RetryDeliveries
from notifications.models import Delivery, Notification
from notifications.writes import NotificationWrite
from relayer_service.console import confirmation
from relayer_service.console.confirmation import CONFIRMED, PendingAction, ReasonForm, Table
from relayer_service.console.dates import IN_TIME_ZONE, ago_titled, to_the_minute, until
from relayer_service.console.jobs import ask_or_start
from relayer_service.console.panels import Panel, object_view
from relayer_service.console.references import link
from relayer_service.jobs.kinds import kind
from relayer_service.storage.selections import Selection, SelectionError

RETRY, REPLAY = "retry_deliveries", "replay_deliveries"
DISABLING = (
    "New events are not queued: they are never sent, not even after it is enabled again. Pending deliveries are held "
    "until then."
)
# An input of browsers, which has no time zone.
LOCAL_FORMAT = "%Y-%m-%dT%H:%M"


class ReplayForm(forms.Form):
    since = forms.DateTimeField(
        label="Created since",
        widget=UnfoldAdminTextInputWidget(attrs={"type": "datetime-local"}),
        help_text=IN_TIME_ZONE,
    )
    which = forms.ChoiceField(
        label="Deliveries",
        choices=[("failed", "Failed"), ("all", "All, delivered ones too")],
        widget=UnfoldAdminSelectWidget,
    )

    def deliveries(self, notification: Notification) -> Any:
        rows = notification.deliveries.filter(created_at__gte=self.cleaned_data["since"])
        return rows.filter(state=Delivery.State.FAILED) if self.cleaned_data["which"] == "failed" else rows


class Status(Panel):
    template = "admin/notifications/notification/status.html"
    views = ["facts", "send_test_event", "retry_all", "replay_since", "disable", "enable"]

    class Media:
        js = ("relayer_service/jobs.js",)

    def context(self, request: HttpRequest, notification: Notification) -> dict[str, Any]:
        found = pending(notification)
        sends, changes = self.admin.has_send_permission(request), self.admin.has_change_permission(request)
        posts, links = {}, {}
        if sends and notification.enabled:
            if found["count"]:
                posts["Retry all"] = self.url("retry_all", notification)
            posts["Send test"] = self.url("send_test_event", notification)
        if changes and not notification.enabled:
            posts["Enable"] = self.url("enable", notification)
        elif changes:
            links["Disable"] = self.url("disable", notification)
        since = notification.failing_since or timezone.now() - timedelta(days=1)
        initial = {"since": f"{timezone.localtime(since):{LOCAL_FORMAT}}"}
        return {
            "webhook": {"posts": posts, "links": links, **read_facts(request, notification, found)},
            "facts_url": self.url("facts", notification),
            "replay_form": ReplayForm(initial=initial, auto_id="replay_%s") if sends else None,
            "replay_url": self.url("replay_since", notification),
        }

    @object_view("view", "GET")
    def facts(self, request: HttpRequest, notification: Notification) -> HttpResponse:
        """Return the facts alone, for the page to refresh them while a delivery is attempted."""
        context = {"webhook": read_facts(request, notification, pending(notification))}
        return TemplateResponse(request, "admin/notifications/notification/facts.html", context)

    @object_view("send")
    def send_test_event(self, request: HttpRequest, notification: Notification) -> None:
        sent = send_test_event(notification)
        if sent is None:
            self.admin.message_user(request, f"{notification} is disabled. Enable it first.", messages.WARNING)
            return
        name = link(sent) if request.user.has_perm("notifications.view_delivery") else sent.identifier
        text = format_html("Test event sent to {}: {}.", notification, name)
        self.admin.message_user(request, text, messages.SUCCESS)

    @object_view("send")
    def retry_all(self, request: HttpRequest, notification: Notification) -> HttpResponse | None:
        """Make all pending deliveries due now, in a job if there are many."""
        retried = RetryDeliveries()
        waiting = notification.deliveries.filter(due_at__isnull=False).exclude(Delivery.leased())
        selection = Selection.from_queryset(waiting)
        if len(selection) > retried.batch_size:
            action = PendingAction(selection, is_confirmed=True, back=self.url("change", notification))
            return ask_or_start(request, self.admin, action, RETRY, Table([], []))
        count = retried.run([*selection]).done
        level = messages.SUCCESS if count else messages.WARNING
        self.admin.message_user(request, f"{retried.done}: {retried.counted(count)}.", level)
        return None

    @object_view("send")
    def replay_since(self, request: HttpRequest, notification: Notification) -> HttpResponse | None:
        """Count the deliveries since a time, then replay them in a job."""
        back = self.url("change", notification)
        if confirmed := request.POST.get(CONFIRMED):
            try:
                action = PendingAction(Selection.parse(confirmed), is_confirmed=True, back=back)
            except SelectionError as error:
                self.admin.message_user(request, str(error), messages.ERROR)
                return None
            return ask_or_start(request, self.admin, action, REPLAY, Table([], []))
        form = ReplayForm(request.POST)
        rows = form.deliveries(notification) if form.is_valid() else Delivery.objects.none()
        selection = Selection.from_queryset(rows)
        if not selection:
            text = f"No {kind(REPLAY).model._meta.verbose_name_plural} match." if form.is_valid() else "Enter a date."
            self.admin.message_user(request, text, messages.WARNING)
            return None
        action = PendingAction(selection, is_confirmed=False, back=back, hidden={CONFIRMED: str(selection)})
        return ask_or_start(request, self.admin, action, REPLAY, targets(request, rows), warnings(rows))

    @object_view("change", asks_first=True)
    def disable(self, request: HttpRequest, notification: Notification) -> HttpResponse | None:
        action = PendingAction.on_page(request, notification.pk, self.url("change", notification))
        form = ReasonForm(request.POST if action.is_confirmed else None, required=False)
        if action.is_confirmed and form.is_valid():
            self._enable(request, notification, False, form.cleaned_data["reason"])
            return None
        table = action.first(self.admin.get_queryset(request), {"State": formatting.state_label})
        return confirmation.ask(request, self.admin, action, "Disable", [DISABLING], table, form)

    @object_view("change")
    def enable(self, request: HttpRequest, notification: Notification) -> None:
        self._enable(request, notification, True)

    def _enable(self, request: HttpRequest, notification: Notification, enabled: bool, reason: str = "") -> None:
        with transaction.atomic():
            write = NotificationWrite(Notification.objects.select_for_update(no_key=True).get(pk=notification.pk))
            write.change({"enabled": enabled})
            write.save(reason)
        self.admin.message_user(
            request, f"{notification} is {'enabled' if enabled else 'disabled'}.", messages.SUCCESS
        )


def pending(notification: Notification) -> dict[str, Any]:
    """Return the number of pending deliveries, the first time that one is due, how many are in flight and retried."""
    rows = notification.deliveries.filter(due_at__isnull=False).order_by()
    waiting = ~Delivery.leased()
    return rows.aggregate(
        count=Count("pk"),
        next=Min("due_at", filter=waiting),
        in_flight=Count("pk", filter=Q(Delivery.leased())),
        retried=Count("pk", filter=Q(attempts_made__gt=0)),
    )


def last_attempted(notification: Notification) -> Delivery | None:
    """Return a delivery that was attempted last: of those that wait for a retry and the newest, the later one."""
    attempted = notification.deliveries.filter(attempted_at__isnull=False)
    found = attempted.filter(due_at__isnull=False).order_by("-due_at").first(), attempted.order_by("-id").first()
    return max(filter(None, found), key=attrgetter("attempted_at"), default=None)


def read_facts(request: HttpRequest, notification: Notification, found: dict[str, Any]) -> dict[str, Any]:
    """Return what the panel says, and whether a delivery is attempted now, so that it will soon say something else."""
    last = last_attempted(notification)
    shown = {"State": formatting.state_label(notification)}
    if not notification.enabled:
        shown["Reason"] = "It is disabled."
    elif notification.gone_at:
        shown["Reason"] = "It returned 410 Gone. To resume, change its URL, send a test or replay deliveries."
        shown["Since"] = to_the_minute(notification.gone_at)
    elif notification.failing_since:
        error = (last and last.error) or "unknown"
        may_open = request.user.has_perm("notifications.view_delivery")
        shown["Error"] = link(last, error) if last and may_open else error
        shown["Since"] = to_the_minute(notification.failing_since)
    if last:
        shown["Last attempt"] = ago_titled(last.attempted_at)
    shown["Next attempt"] = next_attempt(notification, found)
    shown["Pending"] = f"{found['count']:,}"
    if found["count"] and formatting.is_retried(notification):
        behind = found["count"] - found["retried"]
        shown["Pending"] += f": {found['retried']:,} retrying, {behind:,} waiting behind"
    is_due = found["next"] is not None and found["next"] <= timezone.now()
    return {"facts": shown, "is_busy": notification.enabled and bool(found["in_flight"] or is_due)}


def next_attempt(notification: Notification, found: dict[str, Any]) -> str:
    if not notification.enabled:
        return "when it is enabled"
    if notification.gone_at:
        return "none"
    if found["in_flight"]:
        return "in progress"
    if found["next"] is None:
        return "with the next event"
    if formatting.is_retried(notification) and found["next"] <= timezone.now():
        return "within seconds, of one delivery at a time"
    return until(found["next"])
