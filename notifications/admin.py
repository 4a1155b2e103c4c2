from collections.abc import Iterable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.db import transaction
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from unfold.decorators import action, display

from notifications.deleting import delete_logs, drop_deliveries
from notifications.delivery import counts
from notifications.delivery_admin import DeliveryAdmin, counted
from notifications.emitting import send_test_event
from notifications.filters import TargetStateFilter
from notifications.forms import NotificationForm
from notifications.models import Delivery, Notification
from relayer_service.admin import confirmation
from relayer_service.admin.confirmation import PendingAction, Table
from relayer_service.admin.dashboard import label
from relayer_service.admin.dates import to_the_minute
from relayer_service.admin.jobs import ask_or_start
from relayer_service.admin.referenced import ReferencedAdmin
from relayer_service.admin.references import in_use, link, may_view_users
from relayer_service.net.addresses import mask, without_user_info
from relayer_service.storage.prefixes import Folded

admin.site.register(Delivery, DeliveryAdmin)


@admin.register(Notification)
class NotificationAdmin(ReferencedAdmin):
    dependents = [Delivery]
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
            changelist.search_help_text = "The start of an ID or URL"
        return changelist

    def get_search_fields(self, request: HttpRequest) -> list[str]:
        """Search URLs only for staff who see them in full: a search by prefix would reveal the keys in them."""
        return ["identifier", "url"] if self.has_change_permission(request) else ["identifier"]

    def searched_texts(self, column: str, text: str) -> list[str]:
        return [text, f"https://{text}", f"http://{text}"] if column == "url" else [text]

    def get_fieldsets(self, request: HttpRequest, obj: Notification | None = None) -> Any:
        if obj is None:
            return [(None, {"fields": ["identifier", "type", "url", "new_signing_key", "enabled", "chosen_events"]})]
        status = ("Status", {"fields": ["state", self.users_field(request), "skipped_events", "created_at"]})
        if not self.has_change_permission(request, obj):
            return [(None, {"fields": ["identifier", "type", "masked_url", "key", "shown_events"]}), status]
        key = ["key", "new_signing_key", *(["remove_signing_key"] if obj.has_signing_key else [])]
        return [
            (None, {"fields": ["identifier", "type", "url", "enabled", "chosen_events"]}),
            ("Signing", {"fields": key}),
            status,
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Notification | None = None) -> list[str]:
        status = ["state", "used_by", "use_counts", "skipped_events", "created_at"]
        return [*(["identifier"] if obj else []), "masked_url", "key", "shown_events", *status]

    @display(description="URL")
    def shown_url(self, notification: Notification) -> str:
        return without_user_info(notification.url)

    @display(description="URL")
    def masked_url(self, notification: Notification) -> str:
        return mask(notification.url)

    @display(description="events")
    def shown_events(self, notification: Notification) -> str:
        return notification.events

    @display(description="signing key")
    def key(self, notification: Notification) -> str:
        return label("set", "success") if notification.has_signing_key else label("none", "warning")

    @display(description="state")
    def state(self, notification: Notification) -> str:
        badges = [] if notification.enabled else [label("disabled", "info")]
        if notification.gone_at:
            badges.append(label(f"gone since {to_the_minute(notification.gone_at)}", "danger"))
        elif notification.failing_since:
            badges.append(label(f"failing since {to_the_minute(notification.failing_since)}", "warning"))
        return format_html_join(" ", "{}", zip(badges or [label("ok", "success")], strict=False))

    @display(description="skipped events")
    def skipped_events(self, notification: Notification) -> str:
        count = counts.skipped_events(notification)
        return f"{count:,} while it was disabled" if count else "none"

    def get_deleted_objects(self, objs: Iterable[Notification], request: HttpRequest) -> Any:
        """Count the deliveries. Django would read every row, of which there may be a million."""
        chosen = {notification.pk: notification for notification in objs}
        deliveries = Delivery.objects.filter(notification__in=[*chosen]).order_by().values_list("notification")
        counted_rows = deliveries.annotate(count=Count("pk"), pending=Count("pk", filter=Q(due_at__isnull=False)))
        numbers = {pk: (count, pending) for pk, count, pending in counted_rows}
        lines = [deletion_line(notification, *numbers.get(pk, (0, 0))) for pk, notification in chosen.items()]
        totals = {"notifications": len(chosen), "deliveries": sum(count for count, _ in numbers.values())}
        linked = may_view_users(request, Notification, self.dependents)
        return lines, totals, set(), in_use([*chosen.values()], linked=linked, without=self.dependents)

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> Any:
        # Before Django's transaction begins: a long log is deleted in batches.
        notification = self.get_object(request, unquote(object_id)) if request.POST else None
        if notification and self.has_delete_permission(request, notification):
            delete_logs([notification])
        return super().delete_view(request, object_id, extra_context)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Notification]) -> None:
        delete_logs([*queryset])
        super().delete_queryset(request, queryset)

    def delete_dependents(self, request: HttpRequest, row: Notification) -> str:
        dropped = drop_deliveries(row)
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
        signed = "signed" if notification.has_signing_key else "unsigned"
        texts = [f"A test event is sent immediately, {signed}."]
        if notification.gone_at:
            texts.append(
                "The target returned 410 Gone. Deliveries to it resume, and it receives new events from now on."
            )
        return confirmation.ask(request, self, pending, "Send test event", texts, self._first(request, pending))

    @admin.action(description="Send test event to selected notifications", permissions=["change"])
    def send_test_event_to_selected(self, request: HttpRequest, queryset: QuerySet[Notification]) -> HttpResponse:
        pending = PendingAction.in_list(request, "send_test_event_to_selected", queryset)
        targets = self.get_queryset(request)
        texts = []
        if disabled := pending.count(targets.filter(enabled=False)):
            texts.append(f"Skipped: {disabled:,} (disabled).")
        if gone := pending.count(targets.filter(gone_at__isnull=False)):
            texts.append(
                f"Targets that returned 410 Gone: {gone:,}. Deliveries to them resume, and they receive new "
                "events from now on."
            )
        return ask_or_start(request, self, pending, "send_test_events", self._first(request, pending), texts, disabled)

    def _first(self, request: HttpRequest, pending: PendingAction) -> Table:
        return pending.first(self.get_queryset(request), {"URL": self.shown_url, "State": self.state})

    def _send_test_event(self, request: HttpRequest, notification: Notification) -> None:
        sent = send_test_event(notification)
        if sent is None:
            self.message_user(request, f"{notification} is disabled. Enable it first.", messages.WARNING)
            return
        name = link(sent) if request.user.has_perm("notifications.view_delivery") else sent.identifier
        text = format_html("{}: test event queued as {}.", notification, name)
        self.message_user(request, text, messages.SUCCESS)


def deletion_line(notification: Notification, count: int, pending: int) -> str:
    line = f"{notification}, with {counted(count)}"
    return f"{line}, {pending:,} of them pending: these will never be sent" if pending else line
