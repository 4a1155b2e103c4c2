"""The list of lanes, and a page for each: its nonces, and why it sends nothing. Staff can hold it and free it."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import model_ngettext, unquote
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.decorators import action
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from chain.units import coins
from relayer_service.console import confirmation
from relayer_service.console.base import ReadOnlyAdmin, column
from relayer_service.console.confirmation import PendingAction, ReasonForm
from relayer_service.console.dates import ago_titled, to_the_minute
from relayer_service.console.lists.changelists import MAX_LISTED, count_up_to_maximum, counted, is_key
from relayer_service.console.references import link
from relayers.console.formatting import report
from relayers.models import Relayer
from transactions.console import formatting
from transactions.console.filters import RELAYER, LaneStateFilter, RelayerNetworkFilter, WaitingFilter
from transactions.models import HAS_OPEN_NONCE, IN_FLIGHT, IS_IN_FLIGHT, IS_PENDING, Hold, Lane, Status, Transaction
from transactions.records.networks import known_network
from transactions.repair.gaps import fill_cost, fill_gap, fill_refusal
from transactions.repair.holding import RISKS, hold_lanes, release_lanes
from transactions.requests import actions
from transactions.requests.actions import Refused

HOLD, RELEASE, FILL_GAP, RESEND_ALL = "Hold", "Release", "Fill hole", "Resend all"
# The parameter with the page that an action leads back to: "lane" or "relayer".
ORIGIN = "from"
# The form field with the nonce that was shown: another one is never closed.
NONCE_FIELD = "nonce"
HOLD_EFFECT = (
    "No request gets a nonce until the lane is released. What is in flight is still broadcast, repriced and "
    "confirmed; new requests are accepted and wait."
)
RELEASE_EFFECT = "Waiting requests get a nonce and are sent, unless the lane has another hold."
FILL_EFFECT = (
    "A no-op of the relayer uses nonce {nonce} now. The service would do so by itself a few blocks after it has found "
    "the hole. If another program has a transaction with this nonce pending, one of the two is mined."
)
RESEND_EFFECT = (
    "The signed bytes of every transaction in flight are broadcast again now. That costs nothing and signs nothing: "
    "each nonce can be mined only once."
)


class ReleaseForm(ReasonForm):
    """Which holds to end. Only the one set by staff is chosen at first."""

    holds = forms.MultipleChoiceField(widget=UnfoldAdminCheckboxSelectMultipleWidget, label="Holds to end")
    field_order = ["holds", "reason"]

    def __init__(self, lane: Lane, data: Any = None) -> None:
        chosen = [Hold.OPERATOR] if Hold.OPERATOR in lane.holds else []
        super().__init__(data, required=True, initial={"holds": chosen})
        field: Any = self.fields["holds"]
        field.choices = [(entry.reason, entry.label) for entry in formatting.hold_entries(lane)]


class LaneAdmin(ReadOnlyAdmin):
    list_display = [
        "shown_address", "shown_relayer", "state", "network", "shown_chain_nonce", "shown_next_nonce", "in_flight",
        "queued", "head_age", "why",
    ]  # fmt: skip
    list_display_links = ["shown_address"]
    list_filter = [LaneStateFilter, ("relayer", AutocompleteSelectFilter), RelayerNetworkFilter, WaitingFilter]
    list_fullwidth = True
    list_select_related = ["relayer"]
    ordering = ["-id"]
    search_fields = ["address", "relayer__identifier"]
    search_help_text = "The start of an address or of a relayer's ID"
    allowed_lookups = {"state", "network", "waiting"}
    allowed_keys = {RELAYER}
    fields = ["shown_relayer", "network", "shown_full_address", "chain_id", "shown_database_identity"]
    readonly_fields = fields
    actions = ["hold_selected", "release_selected"]
    actions_detail = ["hold", "release", "fill_hole", "resend_all"]

    class Media:
        css = {"all": ["relayers/admin.css", "transactions/admin.css"]}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Lane]:
        lanes: QuerySet[Lane] = super().get_queryset(request)
        return lanes.select_related("relayer", "watch").defer("relayer__custom_rpc_urls", "relayer__private_rpc_urls")

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        if {"in_flight", "queued"}.intersection(changelist.list_display):
            add_counts(changelist.result_list)
        return changelist

    def has_hold_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return bool(request.user.has_perm("transactions.change_lane"))

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[Any]:
        """Omit what would change nothing, such as Hold for a lane that staff hold."""
        offered: list[Any] = super().get_actions_detail(request, object_id)
        lane = self.get_object(request, unquote(object_id)) if offered else None
        if lane is None:
            return offered
        useless = {
            HOLD: Hold.OPERATOR in lane.holds,
            RELEASE: not lane.is_held,
            FILL_GAP: lane.chain_nonce is None or bool(fill_refusal(lane, lane.chain_nonce)),
            RESEND_ALL: not rows_in_flight(lane).exists(),
        }
        return [item for item in offered if not useless[item.description]]

    shown_address = column("address", lambda lane: formatting.shortened(lane.address))
    shown_full_address = column("address", lambda lane: formatting.explorer_link(lane, "address", lane.address))
    shown_relayer = column("relayer", lambda lane: link(lane.relayer) if lane.relayer else "deleted")
    network = column("network", formatting.network_name)
    state = column("state", formatting.lane_badges)
    shown_chain_nonce = column("chain nonce", lambda lane: "-" if lane.chain_nonce is None else str(lane.chain_nonce))
    shown_next_nonce = column("next nonce", lambda lane: "-" if lane.next_nonce is None else str(lane.next_nonce))
    in_flight = column("in flight", lambda lane: f"{sum(lane.open_counts[status] for status in IN_FLIGHT):,}")
    queued = column("queued", lambda lane: counted(lane.open_counts[Status.PENDING]))
    head_age = column("head since", lambda lane: ago_titled(lane.head_since) if lane.head_since else "-")
    why = column("why", lambda lane: formatting.lane_reason(lane) or "-")
    shown_database_identity = column("database", lambda lane: lane.database_identity or "unknown")

    @admin.action(description="Hold selected lanes", permissions=["hold"])
    def hold_selected(self, request: HttpRequest, queryset: QuerySet[Lane]) -> HttpResponse:
        return self._ask_or_hold(request, PendingAction.in_list(request, "hold_selected", queryset, limit=MAX_LISTED))

    @action(description=HOLD, icon="back_hand", permissions=["hold"])
    def hold(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._ask_or_hold(request, self._on_page(request, object_id)[1])

    def _ask_or_hold(self, request: HttpRequest, pending: PendingAction) -> HttpResponse:
        form = ReasonForm(request.POST if pending.is_confirmed else None, required=True)
        if form.is_valid():
            count = hold_lanes(pending.selection, form.cleaned_data["reason"])
            report(self, request, "Held", count, len(pending.selection) - count, "already held by staff")
            return pending.leave()
        title = f"Hold {model_ngettext(Lane._meta, len(pending.selection))}"
        return confirmation.ask(request, self, pending, title, [HOLD_EFFECT], self._table(request, pending), form)

    @admin.action(description="Release selected lanes", permissions=["hold"])
    def release_selected(self, request: HttpRequest, queryset: QuerySet[Lane]) -> HttpResponse:
        """End only the holds of staff: the risk of ending another depends on the lane, and is on its page."""
        pending = PendingAction.in_list(request, "release_selected", queryset, limit=MAX_LISTED)
        form = ReasonForm(request.POST if pending.is_confirmed else None, required=True)
        if form.is_valid():
            count = release_lanes(pending.selection, [Hold.OPERATOR], form.cleaned_data["reason"])
            report(self, request, "Released", count, len(pending.selection) - count, "not held by staff")
            return pending.leave()
        texts = ["Ends the holds that staff have set. To end another hold, open the page of its lane.", RELEASE_EFFECT]
        return confirmation.ask(
            request, self, pending, "Release selected lanes", texts, self._table(request, pending), form
        )

    @action(description=RELEASE, icon="lock_open", permissions=["hold"])
    def release(self, request: HttpRequest, object_id: str) -> HttpResponse:
        lane, pending = self._on_page(request, object_id)
        form = ReleaseForm(lane, request.POST if pending.is_confirmed else None)
        if form.is_valid():
            count = release_lanes(pending.selection, form.cleaned_data["holds"], form.cleaned_data["reason"])
            report(self, request, "Released", count, 1 - count, "no longer held for this reason")
            return pending.leave()
        risks = [f"“{entry.label}”: {RISKS.get(entry.reason, '')}" for entry in formatting.hold_entries(lane)]
        texts = [RELEASE_EFFECT, *risks]
        return confirmation.ask(request, self, pending, "Release lane", texts, self._table(request, pending), form)

    @action(description=FILL_GAP, icon="healing", permissions=["hold"])
    def fill_hole(self, request: HttpRequest, object_id: str) -> HttpResponse:
        lane, pending = self._on_page(request, object_id)
        given = request.POST.get(NONCE_FIELD, "") if pending.is_confirmed else str(lane.chain_nonce or 0)
        if not (given.isascii() and given.isdecimal() and is_key(given)):
            self.message_user(request, "Not filled. No nonce was given.", messages.WARNING)
            return pending.leave()
        nonce = int(given)
        form = ReasonForm(request.POST if pending.is_confirmed else None, required=False)
        if form.is_valid():
            try:
                fill_gap(lane.pk, nonce, form.cleaned_data["reason"])
            except Refused as refused:
                self.message_user(request, f"Not filled. {refused.detail}", messages.WARNING)
            else:
                self.message_user(request, f"The lane fills the hole at nonce {nonce} in its next turn.")
            return pending.leave()
        if text := fill_refusal(lane, nonce):
            self.message_user(request, f"Not filled. {text}", messages.WARNING)
            return pending.leave()
        cost = coins(fill_cost(lane), known_network(lane))
        texts = [FILL_EFFECT.format(nonce=nonce), f"It can cost at most {cost}, with the gas of a transfer."]
        pending = replace(pending, hidden={NONCE_FIELD: nonce})
        return confirmation.ask(request, self, pending, FILL_GAP, texts, self._table(request, pending), form)

    @action(description=RESEND_ALL, icon="replay", permissions=["hold"])
    def resend_all(self, request: HttpRequest, object_id: str) -> HttpResponse:
        lane, pending = self._on_page(request, object_id)
        if not pending.is_confirmed:
            return confirmation.ask(request, self, pending, RESEND_ALL, [RESEND_EFFECT], self._table(request, pending))
        count, refusals = 0, []
        for key in rows_in_flight(lane).order_by("nonce").values_list("pk", flat=True):
            try:
                actions.resend(key, by=request.user.get_username())
                count += 1
            except Refused as refused:
                refusals.append(str(refused.detail))
        text = f"Broadcast again: {count:,} {model_ngettext(Transaction._meta, count)}."
        if refusals:
            text += f" Skipped: {len(refusals):,} ({refusals[0]})"
        self.message_user(request, text, messages.SUCCESS if count else messages.WARNING)
        return pending.leave()

    def _on_page(self, request: HttpRequest, object_id: str) -> tuple[Lane, PendingAction]:
        lane = self.get_object_or_404(request, object_id)
        page = reverse("admin:transactions_lane_change", args=[lane.pk])
        return lane, PendingAction.on_page(request, lane.pk, origin_page(request, lane, page))

    def _table(self, request: HttpRequest, pending: PendingAction) -> confirmation.Table:
        columns = {"Relayer": self.shown_relayer, "Held for": self._held_for}
        return pending.first(self.get_queryset(request), columns)

    def _held_for(self, lane: Lane) -> str:
        entries = formatting.hold_entries(lane)
        texts = [f"{entry.label} (since {to_the_minute(entry.since, 'unknown')})" for entry in entries]
        return ", ".join(texts) or "not held"


def origin_page(request: HttpRequest, lane: Lane, default: str) -> str:
    """Return the page that an action was chosen on."""
    origin = request.GET.get(ORIGIN)
    if origin == "relayer" and lane.relayer_id is not None and request.user.has_perm("relayers.view_relayer"):
        return reverse("admin:relayers_relayer_change", args=[lane.relayer_id])
    if origin == "lane" and request.user.has_perm("transactions.view_lane"):
        return reverse("admin:transactions_lane_change", args=[lane.pk])
    return default


def rows_in_flight(lane: Lane) -> QuerySet[Transaction]:
    return Transaction.objects.filter(IS_IN_FLIGHT, lane=lane, epoch=lane.epoch)


def lane_of(obj: Any) -> Any:
    """Return the lane of a relayer, or a lane, with its `open_counts`; all panels of a page read them once."""
    if not hasattr(obj, "counted_lane"):
        key = {"relayer": obj.pk} if isinstance(obj, Relayer) else {"pk": obj.pk}
        obj.counted_lane = Lane.objects.select_related("relayer__health", "watch").filter(**key).first()
        add_counts([obj.counted_lane] if obj.counted_lane else [])
    return obj.counted_lane


def add_counts(lanes: Iterable[Any]) -> None:
    """Set `open_counts` of each lane, by status, in two queries; pending ones are counted up to a maximum."""
    by_lane = {lane.pk: lane for lane in lanes}
    for lane in by_lane.values():
        lane.open_counts = defaultdict(int)
    if not by_lane:
        return
    queues = [Transaction.objects.filter(IS_PENDING, lane=key) for key in by_lane]
    for lane, number in zip(by_lane.values(), count_up_to_maximum(queues), strict=True):
        lane.open_counts[Status.PENDING] = number
    rows = Transaction.objects.filter(HAS_OPEN_NONCE, lane__in=[*by_lane]).order_by()
    for key, status, number in rows.values_list("lane", "status").annotate(Count("pk")):
        by_lane[key].open_counts[status] = number
