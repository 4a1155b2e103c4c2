"""The log of deliveries, with actions that send them again."""

import json
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import mark_safe
from unfold.admin import TabularInline
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.decorators import action, display

from notifications.console.curl import curl, sent_headers
from notifications.console.filters import SUBJECT, DeliveryStateFilter, EventFilter, SubjectFilter
from notifications.console.formatting import is_retried
from notifications.delivery import texts
from notifications.delivery.posting import request_body
from notifications.jobs import SEND, DeliveryKind, ReplayDeliveries, RetryDeliveries
from notifications.models import Attempt, Delivery, Notification
from relayer_service.console import confirmation
from relayer_service.console.base import ReadOnly, ReadOnlyAdmin
from relayer_service.console.confirmation import MAX_SHOWN, PendingAction, Table
from relayer_service.console.dates import ago_titled, exact, to_the_minute, until
from relayer_service.console.jobs import ask_or_start
from relayer_service.console.lists.changelists import MAX_LISTED
from relayer_service.console.lists.filters import DayRangeFilter
from relayer_service.console.overview.dashboard import label
from relayer_service.console.references import link
from relayer_service.observability.tracing import trace_id

# Required to configure webhooks, and so to see full URLs, signatures and responses.
CHANGE = "notifications.change_notification"
# A target's response is untrusted: it is shown as plain text.
PLAIN_TEXT = '<pre class="plain-text">{}</pre>'
IN_TURN = mark_safe('<span title="While a webhook fails, one delivery at a time is tried.">in its turn</span>')
MAX_NAMES = 10
NO_TABLE = Table([], [])
MOMENTS = ["created", "attempted", "next_attempt"]
VARIANTS: dict[str, str] = {
    Delivery.State.PENDING: "info",
    Delivery.State.DELIVERED: "success",
    Delivery.State.FAILED: "danger",
}


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

    @display(description="time")
    def started(self, attempt: Attempt) -> str:
        return exact(attempt.started_at)

    @display(description="took")
    def took(self, attempt: Attempt) -> str:
        return f"{attempt.milliseconds} ms"

    @display(description="response")
    def shown_answer(self, attempt: Attempt) -> str:
        return format_html(PLAIN_TEXT, attempt.answer) if attempt.answer else "-"


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
        return [
            (None, {"fields": ["identifier", "event", "subject", "trace", f"{secret}target"]}),
            ("Sending", {"fields": ["shown_state", "attempts_made", "response_code", "error", *MOMENTS]}),
            ("Request", {"fields": request_fields(obj, secret)}),
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

    @display(description="state")
    def shown_state(self, delivery: Delivery) -> str:
        return label(state_name(delivery), VARIANTS[delivery.state])

    @display(description="error")
    def last_error(self, delivery: Delivery) -> str:
        return delivery.error or "-"

    @display(description="created")
    def created_minute(self, delivery: Delivery) -> str:
        return to_the_minute(delivery.created_at)

    @display(description="created")
    def created(self, delivery: Delivery) -> str:
        return exact(delivery.created_at)

    @display(description="last attempt")
    def last_attempt(self, delivery: Delivery) -> str:
        return ago_titled(delivery.attempted_at)

    @display(description="last attempt")
    def attempted(self, delivery: Delivery) -> str:
        return exact(delivery.attempted_at)

    @display(description="next attempt")
    def next_attempt(self, delivery: Delivery) -> str:
        if delivery.due_at is None:
            return "-"
        if not delivery.notification.enabled:
            return "held while the webhook is disabled"
        in_progress = delivery.lease and delivery.due_at > timezone.now()
        if is_retried(delivery.notification) and delivery.due_at <= timezone.now():
            return IN_TURN
        return "in progress" if in_progress else until(delivery.due_at)

    @display(description="trace ID")
    def trace(self, delivery: Delivery) -> str:
        return trace_id(delivery.traceparent) or "-"

    @display(description="webhook")
    def target(self, delivery: Delivery) -> str:
        return format_html("{} ({})", link(delivery.notification), delivery.notification.shown_url)

    @display(description="webhook")
    def masked_target(self, delivery: Delivery) -> str:
        return format_html("{} ({})", link(delivery.notification), delivery.notification.masked_url)

    @display(description="body")
    def shown_body(self, delivery: Delivery) -> str:
        body = json.loads(request_body(delivery))
        return format_html(PLAIN_TEXT, json.dumps(body, indent=2, ensure_ascii=False))

    @display(description="message")
    def message(self, delivery: Delivery) -> str:
        body = bytes(delivery.body)
        return format_html(PLAIN_TEXT, f"Subject: {texts.subject(body)}\n\n{texts.text(body)}")

    @display(description="headers")
    def headers(self, delivery: Delivery) -> str:
        return self._headers(delivery, with_signature=True)

    @display(description="headers")
    def masked_headers(self, delivery: Delivery) -> str:
        return self._headers(delivery, with_signature=False)

    def _headers(self, delivery: Delivery, *, with_signature: bool) -> str:
        last = delivery.attempts.last()
        if last is None:
            return "Not sent yet."
        headers = sent_headers(delivery, last, with_signature=with_signature)
        return format_html(PLAIN_TEXT, "\n".join(f"{name}: {value}" for name, value in headers.items()))

    @display(description="copy as curl")
    def curl(self, delivery: Delivery) -> str:
        return render_to_string("admin/notifications/delivery/curl.html", {"curl": curl(delivery, with_secrets=True)})

    @display(description="curl")
    def masked_curl(self, delivery: Delivery) -> str:
        return format_html(PLAIN_TEXT, curl(delivery, with_secrets=False))

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


def state_name(delivery: Delivery) -> str:
    """Return the state; of a pending delivery, whether it was tried or waits behind others."""
    webhook = delivery.notification
    if delivery.state != Delivery.State.PENDING or not webhook.enabled or webhook.gone_at:
        return delivery.state
    if delivery.attempts_made:
        return "retrying"
    return "waiting" if is_retried(webhook) else delivery.state


def request_fields(delivery: Delivery | None, secret: str) -> list[str]:
    if delivery and delivery.notification.is_email:
        return ["message"]
    return [f"{secret}headers", "shown_body", f"{secret}curl"]


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
