"""The log of deliveries: staff read it, and have what is in it sent again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import unquote
from django.db import transaction
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.timesince import timeuntil
from unfold.admin import TabularInline
from unfold.contrib.filters.admin import AutocompleteSelectFilter, ChoicesDropdownFilter
from unfold.decorators import action, display

from notifications import confirmation
from notifications.delivery.replay import replay, retry_now
from notifications.filters import EventFilter
from notifications.models import Attempt, Delivery, Notification
from relayer_service.admin.base import ReadOnly, ReadOnlyAdmin
from relayer_service.admin.dashboard import label
from relayer_service.admin.dates import ago, exact, to_the_minute
from relayer_service.admin.filters import DayRangeFilter
from relayer_service.admin.pagination import MAX_LISTED, NewestPaginator
from relayer_service.audit.recording import acted, record
from relayer_service.net.addresses import mask

# A target's answer is untrusted: it is shown as plain text.
PLAIN_TEXT = '<pre class="plain-text">{}</pre>'
# The field with which the confirmation page sends back what it asked about.
CONFIRMED = "confirmed"
MAX_DIGITS = 18
MAX_NAMES = 10
MOMENTS = ["created", "attempted", "next_attempt"]
VARIANTS: dict[str, str] = {
    Delivery.State.PENDING: "info",
    Delivery.State.DELIVERED: "success",
    Delivery.State.FAILED: "danger",
}


@dataclass(frozen=True)
class Act:
    """Something that staff do with deliveries, and the words for it."""

    run: Callable[[QuerySet[Delivery]], int]
    title: str
    explanation: str
    done: str
    left_alone: str


REPLAY = Act(
    replay,
    "Replay",
    "Sent again from the start of the schedule, with the same webhook-id and body: {}.",
    "Replayed",
    "on their way",
)
RETRY_NOW = Act(
    retry_now,
    "Retry now",
    "The next attempt is made at once, and the schedule goes on from there: {}.",
    "Brought forward",
    "on their way or not pending",
)


def may_change_notifications(request: HttpRequest) -> bool:
    return bool(request.user.has_perm("notifications.change_notification"))


class AttemptInline(ReadOnly, TabularInline):
    model = Attempt
    readonly_fields = ["started", "took", "response_code", "error", "shown_answer"]
    ordering = ["-id"]
    per_page = 20
    max_num = 0
    hide_title = True

    def get_fields(self, request: HttpRequest, obj: Delivery | None = None) -> list[str]:
        """Show an answer to those only who see the URL whole: many servers repeat the path of the request."""
        hidden = [] if may_change_notifications(request) else ["shown_answer"]
        return [field for field in self.readonly_fields if field not in hidden]

    def has_view_permission(self, request: HttpRequest, obj: Delivery | None = None) -> bool:
        return bool(request.user.has_perm("notifications.view_delivery"))

    @display(description="time")
    def started(self, attempt: Attempt) -> str:
        return exact(attempt.started_at)

    @display(description="took")
    def took(self, attempt: Attempt) -> str:
        return f"{attempt.milliseconds} ms"

    @display(description="answer")
    def shown_answer(self, attempt: Attempt) -> str:
        return format_html(PLAIN_TEXT, attempt.answer) if attempt.answer else "-"


class DeliveryAdmin(ReadOnlyAdmin):
    list_display = [
        "identifier",
        "event",
        "notification",
        "shown_state",
        "attempts_made",
        "code",
        "created_minute",
        "last_attempt",
        "next_attempt",
    ]
    list_filter = [
        ("state", ChoicesDropdownFilter),
        EventFilter,
        ("notification", AutocompleteSelectFilter),
        ("created_at", DayRangeFilter),
    ]
    list_fullwidth = True
    list_select_related = ["notification"]
    list_per_page = 50
    paginator = NewestPaginator
    # No other order has an index: it would sort the whole table.
    ordering = ["-id"]
    sortable_by: list[str] = []
    search_fields = ["identifier__exact"]
    search_help_text = "The whole webhook-id"
    allowed_lookups = {"state__exact", "event", "created_at_from", "created_at_to"}
    actions = ["replay_selected", "retry_selected_now"]
    actions_detail = ["replay", "retry_now"]
    inlines = [AttemptInline]
    readonly_fields = ["target", "masked_target", "shown_body", "shown_state", *MOMENTS]

    def get_fieldsets(self, request: HttpRequest, obj: Delivery | None = None) -> Any:
        target = "target" if may_change_notifications(request) else "masked_target"
        return [
            (None, {"fields": ["identifier", "event", target, "shown_body"]}),
            ("Sending", {"fields": ["shown_state", "attempts_made", "response_code", "error", *MOMENTS]}),
        ]

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        if lookup == "notification__sequence__exact":
            # No more than a database accepts as a number.
            return len(str(value)) <= MAX_DIGITS
        return super().lookup_allowed(lookup, value, request)

    def has_send_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        """Return whether the user may send again: a delivery itself has no change permission, its target's counts."""
        return bool(may_change_notifications(request) and self.has_view_permission(request))

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[Any]:
        """Leave out Retry now for a delivery that is finished."""
        offered: list[Any] = super().get_actions_detail(request, object_id)
        delivery = self.get_object(request, unquote(object_id)) if offered else None
        if delivery and delivery.state != Delivery.State.PENDING:
            offered = [item for item in offered if item.description != RETRY_NOW.title]
        return offered

    @display(description="state")
    def shown_state(self, delivery: Delivery) -> str:
        return label(delivery.state, VARIANTS[delivery.state])

    @display(description="code")
    def code(self, delivery: Delivery) -> int | None:
        return delivery.response_code

    @display(description="created")
    def created_minute(self, delivery: Delivery) -> str:
        return to_the_minute(delivery.created_at)

    @display(description="created")
    def created(self, delivery: Delivery) -> str:
        return exact(delivery.created_at)

    @display(description="last attempt")
    def last_attempt(self, delivery: Delivery) -> str:
        return ago(delivery.attempted_at)

    @display(description="last attempt")
    def attempted(self, delivery: Delivery) -> str:
        return exact(delivery.attempted_at)

    @display(description="next attempt")
    def next_attempt(self, delivery: Delivery) -> str:
        if delivery.due_at is None:
            return "-"
        if not delivery.notification.enabled:
            return "held: the notification is disabled"
        if delivery.due_at <= timezone.now():
            return "now"
        return "on its way" if delivery.lease else f"in {timeuntil(delivery.due_at, depth=1)}"

    @display(description="notification")
    def target(self, delivery: Delivery) -> str:
        return linked(delivery.notification, confirmation.without_user_info(delivery.notification.url))

    @display(description="notification")
    def masked_target(self, delivery: Delivery) -> str:
        return linked(delivery.notification, mask(delivery.notification.url))

    @display(description="body")
    def shown_body(self, delivery: Delivery) -> str:
        body = json.loads(bytes(delivery.body))
        return format_html(PLAIN_TEXT, json.dumps(body, indent=2, ensure_ascii=False))

    @admin.action(description="Replay selected deliveries", permissions=["send"])
    def replay_selected(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> HttpResponse | None:
        if CONFIRMED in request.POST:
            self._send(request, REPLAY, confirmed(request))
            return None
        chosen = list(queryset.values_list("pk", flat=True)[:MAX_LISTED])
        # What Django needs to run this action again.
        selection = {"action": "replay_selected", ACTION_CHECKBOX_NAME: chosen[0] if chosen else 0}
        return self._ask(request, REPLAY, chosen, request.get_full_path(), selection)

    @admin.action(description="Retry selected deliveries now", permissions=["send"])
    def retry_selected_now(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> None:
        self._send(request, RETRY_NOW, list(queryset.values_list("pk", flat=True)[:MAX_LISTED]))

    @action(description=REPLAY.title, icon="replay", permissions=["send"])
    def replay(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._ask_or_send(request, REPLAY, object_id)

    @action(description=RETRY_NOW.title, icon="fast_forward", permissions=["send"])
    def retry_now(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._ask_or_send(request, RETRY_NOW, object_id)

    def _ask_or_send(self, request: HttpRequest, act: Act, object_id: str) -> HttpResponse:
        delivery = self.get_object_or_404(request, object_id)
        page = reverse("admin:notifications_delivery_change", args=[delivery.pk])
        if request.method != "POST":
            return self._ask(request, act, [delivery.pk], page)
        self._send(request, act, [delivery.pk])
        return HttpResponseRedirect(page)

    def _ask(
        self, request: HttpRequest, act: Act, chosen: list[int], back: str, selection: dict[str, object] | None = None
    ) -> HttpResponse:
        deliveries = Delivery.objects.filter(pk__in=chosen)
        by_target = deliveries.order_by().values_list("notification__identifier", "notification__url")
        targets = list(by_target.annotate(count=Count("pk")).order_by("-count", "notification__identifier"))
        texts = [act.explanation.format(counted(len(chosen)))]
        delivered = deliveries.filter(state=Delivery.State.DELIVERED).count()
        if delivered:
            texts.append(f"Delivered before, and now to be delivered once more: {counted(delivered)}.")
        texts += warnings(deliveries)
        hidden = {**(selection or {}), CONFIRMED: ",".join(map(str, chosen))}
        return confirmation.ask(request, self, act.title, texts, targets, back, hidden)

    def _send(self, request: HttpRequest, act: Act, chosen: list[int]) -> None:
        deliveries = Delivery.objects.filter(pk__in=chosen)
        with transaction.atomic():
            revived = names_of(deliveries, gone_at__isnull=False)
            count = act.run(deliveries)
            taken = deliveries.filter(state=Delivery.State.PENDING, lease=None).only("identifier")
            record(acted(delivery, f"{act.done}.") for delivery in taken)
        text = f"{act.done}: {counted(count)}."
        if count < len(chosen):
            text += f" Left alone, as they are {act.left_alone}: {len(chosen) - count}."
        if count and revived:
            text += f" No longer taken for gone, and sent to again: {revived}."
        self.message_user(request, text, messages.SUCCESS if count else messages.WARNING)


def linked(notification: Notification, shown_url: str) -> str:
    page = reverse("admin:notifications_notification_change", args=[notification.pk])
    return format_html('<a class="underline" href="{}">{}</a> ({})', page, notification, shown_url)


def names_of(deliveries: QuerySet[Delivery], **condition: Any) -> str:
    """Return the ids of the targets of deliveries for which something holds, the first of many."""
    targets = Notification.objects.filter(pk__in=deliveries.order_by().values("notification"), **condition)
    names = list(targets.order_by("sequence").values_list("identifier", flat=True)[: MAX_NAMES + 1])
    return ", ".join(names[:MAX_NAMES]) + (" …" if len(names) > MAX_NAMES else "")


def warnings(deliveries: QuerySet[Delivery]) -> list[str]:
    """Return what staff should know of the targets before they send deliveries again."""
    gone = names_of(deliveries, gone_at__isnull=False)
    disabled = names_of(deliveries, enabled=False)
    texts = []
    if gone:
        texts.append(
            "These have answered 410 Gone. Sending to them revives them: they are tried again, and get what is "
            f"emitted from now on, unless they answer 410 once more: {gone}."
        )
    if disabled:
        texts.append(f"These are disabled, and get nothing until they are enabled: {disabled}.")
    return texts


def counted(number: int) -> str:
    return "1 delivery" if number == 1 else f"{number:,} deliveries"


def confirmed(request: HttpRequest) -> list[int]:
    """Return the keys that the confirmation page sent back."""
    numbers = re.findall(rf"\d{{1,{MAX_DIGITS}}}", request.POST[CONFIRMED])
    return [int(number) for number in numbers[:MAX_LISTED]]
