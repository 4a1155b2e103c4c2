from collections.abc import Iterable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.db import transaction
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse

from notifications.console import formatting
from notifications.console.delivery_log import DeliveryAdmin, counted
from notifications.console.filters import ErrorFilter, TargetStateFilter
from notifications.console.forms import NotificationForm
from notifications.delivery.deleting import delete_logs, drop_deliveries
from notifications.jobs import SEND
from notifications.models import Delivery, Notification
from relayer_service.console.base import ReferencedAdmin, column
from relayer_service.console.confirmation import PendingAction, Table
from relayer_service.console.jobs import ask_or_start
from relayer_service.console.references import in_use, may_view_users
from relayer_service.database.prefixes import CaseFolded

admin.site.register(Delivery, DeliveryAdmin)


@admin.register(Notification)
class NotificationAdmin(ReferencedAdmin):
    dependents = [Delivery]
    form = NotificationForm
    list_filter = [TargetStateFilter, ErrorFilter]
    allowed_lookups = {TargetStateFilter.parameter_name, ErrorFilter.parameter_name}
    # The masked URL is not sorted by: that would reveal the order of the keys in URLs.
    sort_orders = {"identifier": CaseFolded("identifier"), "shortened_url": CaseFolded("url"), "created": "sequence"}
    actions = ["send_test_event_to_selected"]
    # The add page shows only the fields of the chosen type; on the change page it is fixed.
    conditional_fields = {
        "url": "typeof type === 'undefined' || type !== 'email'",
        "addresses": "typeof type === 'undefined' || type === 'email'",
        "new_signing_key": "typeof type === 'undefined' || type === 'webhook'",
    }

    def has_send_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return request.user.has_perm(SEND) and bool(self.has_view_permission(request))

    def get_list_display(self, request: HttpRequest) -> list[str]:
        url = "shortened_url" if self.has_change_permission(request) else "masked_url"
        return ["identifier", url, "key", "state", "created"]

    def get_searched(self, request: HttpRequest) -> str:
        return "an ID or URL" if self.has_change_permission(request) else "an ID"

    def get_search_fields(self, request: HttpRequest) -> list[str]:
        """Search URLs only for staff who see them in full: a search by a part would reveal the keys in them."""
        return ["identifier", "url"] if self.has_change_permission(request) else ["identifier"]

    def get_search_results(self, request: HttpRequest, queryset: QuerySet[Notification], search_term: str) -> Any:
        if request.GET.get("model_name") == "relayer":
            # The choices of a relayer's webhook.
            queryset = queryset.filter(type=Notification.Type.WEBHOOK)
        return super().get_search_results(request, queryset, search_term)

    def searched_texts(self, column: str, text: str) -> list[str]:
        return [text, f"https://{text}", f"http://{text}"] if column == "url" else [text]

    def get_fieldsets(self, request: HttpRequest, obj: Notification | None = None) -> Any:
        if obj is None:
            target = ["url", "addresses", "new_signing_key"]
            return [(None, {"fields": ["identifier", "type", *target, "enabled", "chosen_events"]})]
        status = ("Use", {"fields": [self.users_field(request), "skipped_events", "created_at"]})
        if not self.has_change_permission(request, obj):
            return [(None, {"fields": ["identifier", "type", "masked_url", "key", "shown_events"]}), status]
        if obj.type != Notification.Type.WEBHOOK:
            field = "addresses" if obj.is_email else "url"
            return [(None, {"fields": ["identifier", "type", field, "enabled", "chosen_events"]}), status]
        key = ["new_signing_key", *(["remove_signing_key"] if obj.has_signing_key else [])]
        return [
            (None, {"fields": ["identifier", "type", "url", "enabled", "chosen_events"]}),
            ("Signing", {"fields": key}),
            status,
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Notification | None = None) -> list[str]:
        status = ["used_by", "use_counts", "skipped_events", "created_at"]
        return [*(["identifier", "type"] if obj else []), "masked_url", "key", "shown_events", *status]

    shortened_url = column("URL", lambda webhook: webhook.shortened_url, ordering=CaseFolded("url"))
    masked_url = column("URL", lambda webhook: webhook.masked_url)
    shown_events = column("events", lambda webhook: webhook.events)
    key = column("signing key", formatting.signing_key)
    state = column("state", formatting.state_with_details)
    skipped_events = column("skipped events", formatting.skipped_events)

    def get_deleted_objects(self, objs: Iterable[Notification], request: HttpRequest) -> Any:
        """Count the deliveries. Django would read every row, of which there may be a million."""
        chosen = {notification.pk: notification for notification in objs}
        deliveries = Delivery.objects.filter(notification__in=[*chosen]).order_by().values_list("notification")
        counted_rows = deliveries.annotate(count=Count("pk"), pending=Count("pk", filter=Q(due_at__isnull=False)))
        numbers = {pk: (count, pending) for pk, count, pending in counted_rows}
        lines = [deletion_line(notification, *numbers.get(pk, (0, 0))) for pk, notification in chosen.items()]
        totals = {"webhooks": len(chosen), "deliveries": sum(count for count, _ in numbers.values())}
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

    @admin.action(description="Send test event to selected webhooks", permissions=["send"])
    def send_test_event_to_selected(self, request: HttpRequest, queryset: QuerySet[Notification]) -> HttpResponse:
        pending = PendingAction.in_list(request, "send_test_event_to_selected", queryset)
        targets = self.get_queryset(request)
        texts = []
        if disabled := pending.count(targets.filter(enabled=False)):
            texts.append(f"Skipped: {disabled:,} (disabled).")
        if gone := pending.count(targets.filter(gone_at__isnull=False)):
            texts.append(
                f"Webhooks that returned 410 Gone: {gone:,}. Deliveries to them resume, and they receive new "
                "events from now on."
            )
        return ask_or_start(request, self, pending, "send_test_events", self._first(request, pending), texts, disabled)

    def _first(self, request: HttpRequest, pending: PendingAction) -> Table:
        url = self.shortened_url if self.has_change_permission(request) else self.masked_url
        return pending.first(self.get_queryset(request), {"URL": url, "State": self.state})


def deletion_line(notification: Notification, count: int, pending: int) -> str:
    line = f"{notification}, with {counted(count)}"
    return f"{line}, {pending:,} of them pending: these will never be sent" if pending else line
