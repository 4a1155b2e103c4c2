from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.db import transaction
from django.db.models import Count, ProtectedError, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from unfold.decorators import action, display

from notifications import skipped
from notifications.deleting import delete_logs, drop_deliveries, dropped_text
from notifications.delivery_admin import DeliveryAdmin, counted
from notifications.filters import TargetStateFilter
from notifications.forms import NotificationForm
from notifications.models import Delivery, Notification
from notifications.sample_events import send_test_event
from relayer_service.admin import confirmation
from relayer_service.admin.base import ResourceAdmin
from relayer_service.admin.confirmation import PendingAction, Table
from relayer_service.admin.dashboard import label
from relayer_service.admin.dates import to_the_minute
from relayer_service.admin.jobs import ask_or_start
from relayer_service.admin.references import in_use, link, may_view_users, used_by
from relayer_service.net.addresses import mask, without_user_info
from relayer_service.storage.prefixes import Folded

# For staff who may see all that refers to a notification, and for others.
USERS, USER_COUNTS = "used_by", "use_counts"
USED_MEANWHILE = "Not deleted: a relayer was pointed here meanwhile."

admin.site.register(Delivery, DeliveryAdmin)


@admin.register(Notification)
class NotificationAdmin(ResourceAdmin):
    form = NotificationForm
    list_filter = [TargetStateFilter]
    allowed_lookups = {TargetStateFilter.parameter_name}
    sort_orders = {"identifier": Folded("identifier"), "created": "sequence"}
    actions = ["send_test_event_to_selected"]
    actions_detail = ["send_test_event"]

    def get_list_display(self, request: HttpRequest) -> list[str]:
        url = "shown_url" if self.has_change_permission(request) else "masked_url"
        return ["identifier", url, "key", "state", "created"]

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        if self.has_change_permission(request):
            changelist.search_help_text = "The beginning of an id or a URL"
        return changelist

    def get_search_fields(self, request: HttpRequest) -> list[str]:
        """Search in URLs for those only who see them whole: to find one by its key is to learn the key."""
        return ["identifier", "url"] if self.has_change_permission(request) else ["identifier"]

    def searched_texts(self, column: str, text: str) -> list[str]:
        """Find a URL by the name of its host too."""
        return [text, f"https://{text}", f"http://{text}"] if column == "url" else [text]

    def get_fieldsets(self, request: HttpRequest, obj: Notification | None = None) -> Any:
        if obj is None:
            return [(None, {"fields": ["identifier", "type", "url", "new_signing_key", "enabled"]})]
        users = USERS if may_view_users(request, Notification, [Delivery]) else USER_COUNTS
        seen = ("Seen", {"fields": ["state", users, "skipped_events", "created_at"]})
        if not self.has_change_permission(request, obj):
            return [(None, {"fields": ["identifier", "type", "masked_url", "key"]}), seen]
        key = ["key", "new_signing_key", *(["remove_signing_key"] if obj.has_signing_key else [])]
        return [
            (None, {"fields": ["identifier", "type", "url", "enabled"]}),
            ("Signing", {"fields": key}),
            seen,
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Notification | None = None) -> list[str]:
        seen = ["state", USERS, USER_COUNTS, "skipped_events", "created_at"]
        return [*(["identifier"] if obj else []), "masked_url", "key", *seen]

    @display(description="URL")
    def shown_url(self, notification: Notification) -> str:
        return without_user_info(notification.url)

    @display(description="URL")
    def masked_url(self, notification: Notification) -> str:
        return mask(notification.url)

    @display(description="signing key")
    def key(self, notification: Notification) -> str:
        return label("set", "success") if notification.has_signing_key else label("none", "warning")

    @display(description="state")
    def state(self, notification: Notification) -> str:
        """Return a badge, or two for a target that is disabled and in trouble."""
        badges = [] if notification.enabled else [label("disabled", "info")]
        if notification.gone_at:
            badges.append(label(f"gone since {to_the_minute(notification.gone_at)}", "danger"))
        elif notification.failing_since:
            badges.append(label(f"failing since {to_the_minute(notification.failing_since)}", "warning"))
        return format_html_join(" ", "{}", zip(badges or [label("ok", "success")], strict=False))

    @display(description="used by")
    def used_by(self, notification: Notification) -> str:
        return used_by(notification, linked=True, without=[Delivery])

    @display(description="used by")
    def use_counts(self, notification: Notification) -> str:
        return used_by(notification, linked=False, without=[Delivery])

    @display(description="skipped events")
    def skipped_events(self, notification: Notification) -> str:
        count = skipped.total(notification)
        return f"{count:,}, as it was disabled when they happened" if count else "none"

    def get_deleted_objects(self, objs: Iterable[Notification], request: HttpRequest) -> Any:
        """Count the log that goes with notifications. Django would read all of it, which may be a million rows."""
        chosen = {notification.pk: notification for notification in objs}
        deliveries = Delivery.objects.filter(notification__in=[*chosen]).order_by().values_list("notification")
        counted_rows = deliveries.annotate(count=Count("pk"), pending=Count("pk", filter=Q(due_at__isnull=False)))
        counts = {pk: (count, pending) for pk, count, pending in counted_rows}
        lines = [deletion_line(notification, *counts.get(pk, (0, 0))) for pk, notification in chosen.items()]
        totals = {"notifications": len(chosen), "deliveries": sum(count for count, _ in counts.values())}
        linked = may_view_users(request, Notification, [Delivery])
        return lines, totals, set(), in_use([*chosen.values()], linked=linked, without=[Delivery])

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> Any:
        # Before Django's transaction begins: a long log is not deleted in one.
        notification = self.get_object(request, unquote(object_id)) if request.POST else None
        if notification and self.has_delete_permission(request, notification):
            delete_logs([notification])
        try:
            return super().delete_view(request, object_id, extra_context)
        except ProtectedError:
            self.message_user(request, USED_MEANWHILE, messages.ERROR)
            return HttpResponseRedirect(reverse("admin:notifications_notification_changelist"))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Notification]) -> None:
        delete_logs([*queryset])
        try:
            with transaction.atomic():
                super().delete_queryset(request, queryset)
        except ProtectedError:
            self.message_user(request, USED_MEANWHILE, messages.ERROR)

    def delete_dependents(self, request: HttpRequest, row: Notification) -> str:
        dropped = dropped_text(drop_deliveries(row))
        if dropped:
            # After the commit: a deletion that fails drops nothing.
            transaction.on_commit(lambda: self.message_user(request, f"{row}: {dropped}", messages.WARNING))
        return dropped

    @action(description="Send test event", icon="send", permissions=["change"])
    def send_test_event(self, request: HttpRequest, object_id: str) -> HttpResponse:
        notification: Notification = self.get_object_or_404(request, object_id)
        page = reverse("admin:notifications_notification_change", args=[notification.pk])
        pending = PendingAction.on_page(request, notification.pk, page)
        if pending.is_confirmed or not notification.enabled:
            self._send_test_event(request, notification)
            return pending.leave()
        texts = ["It is sent at once, signed." if notification.has_signing_key else "It is sent at once, unsigned."]
        if notification.gone_at:
            texts.append("The target has answered 410 Gone. It is tried again, and gets what is emitted from now on.")
        return confirmation.ask(request, self, pending, "Send test event", texts, self._first(request, pending))

    @admin.action(description="Send test event to selected notifications", permissions=["change"])
    def send_test_event_to_selected(self, request: HttpRequest, queryset: QuerySet[Notification]) -> HttpResponse:
        pending = PendingAction.in_list(request, "send_test_event_to_selected", queryset)
        targets = self.get_queryset(request)
        texts = []
        if disabled := pending.count(targets.filter(enabled=False)):
            texts.append(f"Left alone, as disabled: {disabled:,}.")
        if gone := pending.count(targets.filter(gone_at__isnull=False)):
            texts.append(
                f"Tried again though they have answered 410 Gone, and told of what is emitted from now on: {gone:,}."
            )
        return ask_or_start(request, self, pending, "send_test_events", self._first(request, pending), texts, disabled)

    def _first(self, request: HttpRequest, pending: PendingAction) -> Table:
        return pending.first(self.get_queryset(request), {"URL": self.shown_url, "State": self.state})

    def _send_test_event(self, request: HttpRequest, notification: Notification) -> None:
        sent = send_test_event(notification)
        if sent is None:
            self.message_user(request, f"{notification}: it is disabled. Enable it first.", messages.WARNING)
            return
        name = link(sent) if request.user.has_perm("notifications.view_delivery") else sent.identifier
        text = format_html("{}: a test event is on its way, {}.", notification, name)
        self.message_user(request, text, messages.SUCCESS)


def deletion_line(notification: Notification, count: int, pending: int) -> str:
    """Return the line about a notification on the confirmation page."""
    line = f"{notification}, with {counted(count)}"
    return f"{line}, {pending:,} of them pending: these will never be sent" if pending else line
