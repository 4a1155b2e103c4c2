"""The log of deliveries, with actions that send them again."""

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from unfold.admin import TabularInline
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.decorators import action

from notifications.console import formatting
from notifications.console.filters import SUBJECT, DeliveryStateFilter, EventFilter, SubjectFilter
from notifications.console.formatting import plain_text
from notifications.jobs import SEND, DeliveryKind, ReplayDeliveries, RetryDeliveries
from notifications.models import Attempt, Delivery, Notification
from relayer_service.console import confirmation
from relayer_service.console.base import ReadOnly, ReadOnlyAdmin, column
from relayer_service.console.confirmation import MAX_SHOWN, PendingAction, Table
from relayer_service.console.dates import ago_titled, exact, to_the_minute
from relayer_service.console.jobs import ask_or_start
from relayer_service.console.lists.changelists import MAX_LISTED
from relayer_service.console.lists.filters import DayRangeFilter
from relayer_service.console.references import link
from relayer_service.observability.tracing import trace_id

# Required to configure webhooks, and so to see full URLs, signatures and responses.
CHANGE = "notifications.change_notification"
MAX_NAMES = 10
NO_TABLE = Table([], [])
MOMENTS = ["created", "attempted", "next_attempt"]


class AttemptInline(ReadOnly, TabularInline):
    model = Attempt
    readonly_fields = ["started", "took", "response_code", "error", "shown_answer"]
    ordering = ["-id"]
    per_page = 20
    max_num = 0
    hide_title = True

    def get_fields(self, request: HttpRequest, obj: Delivery | None = None) -> list[str]:
        """Show the response only to staff who see the full URL: many servers repeat the path of the request."""
        hidden = [] if request.user.has_perm(CHANGE) else ["shown_answer"]
        return [field for field in self.readonly_fields if field not in hidden]

    def has_view_permission(self, request: HttpRequest, obj: Delivery | None = None) -> bool:
        return bool(request.user.has_perm("notifications.view_delivery"))

    started = column("time", lambda attempt: exact(attempt.started_at))
    took = column("took", lambda attempt: f"{attempt.milliseconds} ms")
    shown_answer = column("response", lambda attempt: plain_text(attempt.answer) if attempt.answer else "-")


class DeliveryAdmin(ReadOnlyAdmin):
    list_display = [
        "identifier",
        "event",
        "subject",
        "notification",
        "shown_state",
        "attempts_made",
        "response_code",
        "last_error",
        "created_minute",
        "last_attempt",
        "next_attempt",
    ]
    list_filter = [
        DeliveryStateFilter,
        EventFilter,
        SubjectFilter,
        ("notification", AutocompleteSelectFilter),
        ("created_at", DayRangeFilter),
    ]
    list_fullwidth = True
    list_select_related = ["notification"]
    ordering = ["-id"]
    search_fields = ["identifier__exact"]
    search_help_text = "The full webhook-id"
    allowed_keys = {"notification__sequence__exact"}
    allowed_lookups = {"state__exact", "event", SUBJECT, "created_at_from", "created_at_to"}
    actions = ["replay_selected", "retry_selected_now"]
    actions_detail = ["replay", "retry_now"]
    inlines = [AttemptInline]
    readonly_fields = [
        *("trace", "target", "masked_target", "shown_state", *MOMENTS),
        *("headers", "masked_headers", "shown_body", "curl", "masked_curl", "message"),
    ]

    def get_fieldsets(self, request: HttpRequest, obj: Delivery | None = None) -> Any:
        secret = "" if request.user.has_perm(CHANGE) else "masked_"
        is_email = obj is not None and obj.notification.is_email
        sent = ["message"] if is_email else [f"{secret}headers", "shown_body", f"{secret}curl"]
        return [
            (None, {"fields": ["identifier", "event", "subject", "trace", f"{secret}target"]}),
            ("Sending", {"fields": ["shown_state", "attempts_made", "response_code", "error", *MOMENTS]}),
            ("Request", {"fields": sent}),
        ]

    def get_ordering(self, request: HttpRequest) -> list[str]:
        """Sort by the index that the filter by days uses."""
        days = {"created_at_from", "created_at_to"} & {name for name, value in request.GET.items() if value}
        return ["-created_at", "-id"] if days else ["-id"]

    def has_send_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return request.user.has_perm(SEND) and bool(self.has_view_permission(request))

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[Any]:
        """Omit Retry now for a finished delivery."""
        offered: list[Any] = super().get_actions_detail(request, object_id)
        delivery = self.get_object(request, unquote(object_id)) if offered else None
        if delivery and delivery.state != Delivery.State.PENDING:
            offered = [item for item in offered if item.description != RetryDeliveries.title]
        return offered

    shown_state = column("state", formatting.delivery_state)
    last_error = column("error", lambda delivery: delivery.error or "-")
    created_minute = column("created", lambda delivery: to_the_minute(delivery.created_at))
    created = column("created", lambda delivery: exact(delivery.created_at))
    last_attempt = column("last attempt", lambda delivery: ago_titled(delivery.attempted_at))
    attempted = column("last attempt", lambda delivery: exact(delivery.attempted_at))
    next_attempt = column("next attempt", formatting.next_attempt)
    trace = column("trace ID", lambda delivery: trace_id(delivery.traceparent) or "-")
    target = column("webhook", lambda delivery: formatting.target(delivery, with_secrets=True))
    masked_target = column("webhook", lambda delivery: formatting.target(delivery, with_secrets=False))
    headers = column("headers", lambda delivery: formatting.headers(delivery, with_secrets=True))
    masked_headers = column("headers", lambda delivery: formatting.headers(delivery, with_secrets=False))
    shown_body = column("body", formatting.body)
    message = column("message", formatting.message)
    curl = column("copy as curl", formatting.curl_to_copy)
    masked_curl = column("curl", lambda delivery: plain_text(formatting.curl(delivery, with_secrets=False)))

    @admin.action(description="Replay selected deliveries", permissions=["send"])
    def replay_selected(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> HttpResponse:
        return self._ask_or_start(request, "replay_selected", queryset, "replay_deliveries")

    @admin.action(description="Retry selected deliveries now", permissions=["send"])
    def retry_selected_now(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> HttpResponse:
        return self._ask_or_start(request, "retry_selected_now", queryset, "retry_deliveries")

    @action(description=ReplayDeliveries.title, icon="replay", permissions=["send"])
    def replay(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._ask_or_send(request, object_id, ReplayDeliveries())

    @action(description=RetryDeliveries.title, icon="fast_forward", permissions=["send"])
    def retry_now(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._ask_or_send(request, object_id, RetryDeliveries())

    def _ask_or_start(
        self, request: HttpRequest, action_name: str, queryset: QuerySet[Delivery], kind: str
    ) -> HttpResponse:
        pending = PendingAction.in_list(request, action_name, queryset, limit=MAX_LISTED)
        if pending.is_confirmed:
            return ask_or_start(request, self, pending, kind, NO_TABLE)
        deliveries = Delivery.objects.filter(pk__in=[*pending.selection])
        return ask_or_start(request, self, pending, kind, targets(request, deliveries), warnings(deliveries))

    def _ask_or_send(self, request: HttpRequest, object_id: str, kind: DeliveryKind) -> HttpResponse:
        delivery = self.get_object_or_404(request, object_id)
        page = reverse("admin:notifications_delivery_change", args=[delivery.pk])
        pending = PendingAction.on_page(request, delivery.pk, page)
        deliveries = Delivery.objects.filter(pk=delivery.pk)
        if not pending.is_confirmed:
            texts = [kind.explanation.format(kind.counted(1)), *warnings(deliveries)]
            return confirmation.ask(request, self, pending, kind.title, texts, targets(request, deliveries))
        revived = names_of(deliveries, gone_at__isnull=False)
        count = kind.run([delivery.pk]).done
        text = f"{kind.done}: {kind.counted(count)}."
        if not count:
            text += f" Skipped: 1 ({kind.skip_reason})."
        if count and revived:
            text += f" No longer gone: {revived}."
        self.message_user(request, text, messages.SUCCESS if count else messages.WARNING)
        return pending.leave()


def targets(request: HttpRequest, deliveries: QuerySet[Delivery]) -> Table:
    """Return the targets of deliveries that are to be sent, those with most deliveries first."""
    by_target = deliveries.order_by().values_list("notification").annotate(count=Count("pk"))
    ordered = list(by_target.order_by("-count", "notification__identifier"))
    shown = Notification.objects.in_bulk([pk for pk, _ in ordered[:MAX_SHOWN]])
    full = request.user.has_perm(CHANGE)
    urls = {pk: row.shown_url if full else row.masked_url for pk, row in shown.items()}
    rows = [[link(shown[pk]), urls[pk], f"{count:,}"] for pk, count in ordered[:MAX_SHOWN]]
    return Table(["Webhook", "URL", "Events"], rows, max(0, len(ordered) - MAX_SHOWN))


def names_of(deliveries: QuerySet[Delivery], **condition: Any) -> str:
    """Return the first ids of the deliveries' targets that meet a condition."""
    targets = Notification.objects.filter(pk__in=deliveries.order_by().values("notification"), **condition)
    names = list(targets.order_by("sequence").values_list("identifier", flat=True)[: MAX_NAMES + 1])
    return ", ".join(names[:MAX_NAMES]) + (" …" if len(names) > MAX_NAMES else "")


def warnings(deliveries: QuerySet[Delivery]) -> list[str]:
    texts = []
    if delivered := deliveries.filter(state=Delivery.State.DELIVERED).count():
        texts.append(f"Already delivered, and will be delivered again: {counted(delivered)}.")
    if gone := names_of(deliveries, gone_at__isnull=False):
        texts.append(
            f"Webhooks that returned 410 Gone: {gone}. Deliveries to them resume, and they receive new events "
            "until they return 410 again."
        )
    if disabled := names_of(deliveries, enabled=False):
        texts.append(f"Disabled webhooks, which receive nothing until they are enabled: {disabled}.")
    return texts


def counted(number: int) -> str:
    return ReplayDeliveries().counted(number)
