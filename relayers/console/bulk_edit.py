"""The list action that changes nodes, webhook, minimum balance and reserve of relayers: a form, a preview, a job."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from rest_framework import exceptions
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from chain.networks import networks
from chain.units import coins
from notifications.models import Notification
from relayer_service.console import confirmation
from relayer_service.console.base import KeySelect, ResourceAdmin
from relayer_service.console.confirmation import PendingAction, ReasonForm
from relayer_service.console.jobs import announce
from relayer_service.jobs import running
from relayer_service.jobs.kinds import kind
from relayer_service.net.addresses import mask
from relayers.health.probes import ProbeCache
from relayers.jobs.bulk_edits import MINIMUM, NODES, RESERVE, WEBHOOK, Group, groups, typed_amount
from relayers.models import Relayer
from relayers.serializers.relayers import RpcUrlsField

APPLY = "apply"
KIND = "edit_relayers"
KEEP, CLEAR, SET = "", "clear", "set"
NOTHING_CHOSEN = "Choose at least one change."
EDITED = ("nodes", "webhook", "minimum", "reserve")
STOPS = "A relayer whose balance is not above its new reserve stops sending: its transactions wait for funds."
UNVIEWED = ("webhook_change", "webhook")


def change_field(label: str, clear: str, set_to: str) -> forms.ChoiceField:
    choices = [(KEEP, "Leave unchanged"), (SET, set_to), (CLEAR, clear)]
    return forms.ChoiceField(label=label, choices=choices, required=False, widget=UnfoldAdminSelectWidget)


def amount_field(label: str, help_text: str) -> forms.CharField:
    text = f"{help_text} For example 0.5 ETH, in the coin of the network; without a unit, in wei."
    return forms.CharField(
        label=label, required=False, max_length=160, widget=UnfoldAdminTextInputWidget, help_text=text
    )


class BulkEditForm(ReasonForm):
    nodes_change = change_field("Nodes", "Use the network's nodes", "Replace with these RPC URLs")
    nodes = forms.CharField(
        label="RPC URLs",
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3, "spellcheck": "false", "autocomplete": "off"}),
        help_text="One per line, each with weight 100. Stored encrypted; only the host is shown.",
    )
    webhook_change = change_field("Webhook", "No webhook", "Set to this webhook")
    webhook = forms.ModelChoiceField(Notification.objects.all(), required=False, label="New webhook")
    minimum_change = change_field("Minimum balance", "No minimum", "Set to this amount")
    minimum = amount_field("New minimum balance", "Below it, the relayer needs attention. It keeps sending.")
    reserve_change = change_field("Reserve", "No reserve", "Set to this amount")
    reserve = amount_field("New reserve", "It stops sending what could leave less.")
    field_order = [*(f"{name}{end}" for name in EDITED for end in ("_change", "")), "reason"]

    def __init__(self, data: Any = None, *, may_view_webhooks: bool) -> None:
        super().__init__(data, required=True)
        field = Relayer._meta.get_field("notification")
        self.fields["webhook"].widget = KeySelect(field, admin.site)
        self.fields["webhook"].widget.choices = self.fields["webhook"].choices  # type: ignore[attr-defined]
        for name in () if may_view_webhooks else UNVIEWED:
            del self.fields[name]
        # What the job is started with.
        self.changes: dict[str, Any] = {}

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        choices: dict[str, tuple[str, Any, Callable[[Any], Any]]] = {
            NODES: ("nodes", [], self._nodes),
            WEBHOOK: ("webhook", None, lambda row: row.pk),
            MINIMUM: ("minimum", "", str),
            RESERVE: ("reserve", "", str),
        }
        for change, (name, cleared, read) in choices.items():
            chosen = cleaned.get(f"{name}_change", KEEP)
            if chosen == CLEAR:
                self.changes[change] = cleared
            elif chosen == SET and cleaned.get(name):
                self._read(change, name, read)
            elif chosen == SET and name not in self.errors:
                self.add_error(name, "This field is required.")
            elif cleaned.get(name):
                field: Any = self.fields[f"{name}_change"]
                self.add_error(f"{name}_change", f"Choose “{dict(field.choices)[SET]}”, or empty the field below.")
        if not self.changes and not self.errors:
            raise forms.ValidationError(NOTHING_CHOSEN)
        return cleaned

    def _read(self, change: str, name: str, read: Callable[[Any], Any]) -> None:
        try:
            self.changes[change] = read(self.cleaned_data[name])
        except ValidationError as error:
            self.add_error(name, error)

    def _nodes(self, text: str) -> list[dict[str, Any]]:
        try:
            return [dict(entry) for entry in RpcUrlsField().run_validation([{"url": url} for url in text.split()])]
        except exceptions.ValidationError as error:
            raise forms.ValidationError(list(node_faults(error.detail))) from None


def node_faults(detail: Any) -> Iterator[str]:
    """Yield the faults of nodes, each with its line and without its URL."""
    if not isinstance(detail, dict):
        yield from map(str, detail)
        return
    for index, faults in detail.items():
        yield from (f"Line {int(index) + 1}: {fault}" for texts in faults.values() for fault in texts)


class BulkEditAdmin(ResourceAdmin):
    @admin.action(description="Edit selected relayers", permissions=["change"])
    def edit_selected(self, request: HttpRequest, queryset: QuerySet[Relayer]) -> HttpResponse:
        pending = PendingAction.in_list(request, "edit_selected", queryset)
        may_view = request.user.has_perm("notifications.view_notification")
        form = BulkEditForm(request.POST if pending.is_confirmed else None, may_view_webhooks=may_view)
        title = f"Edit {kind(KIND).counted(len(pending.selection))}"
        if not form.is_valid():
            columns = {name: column({}) for name, column in COLUMNS.values()}
            table = pending.first(self.get_queryset(request).select_related("notification"), columns)
            return confirmation.ask(request, self, pending, title, [], table, form, button="Preview")
        if APPLY in request.POST:
            reason = form.cleaned_data["reason"]
            job = running.start(
                KIND, pending.selection, request.user.get_username(), reason=reason, parameters=form.changes
            )
            announce(request, self, job)
            return pending.leave()
        return self._preview(request, pending, form, title)

    def _preview(self, request: HttpRequest, pending: PendingAction, form: BulkEditForm, title: str) -> HttpResponse:
        found = list(groups(pending.selection, form.changes, ProbeCache()))
        changed = sum(group.count for group in found if not group.fault)
        texts = [f"Changes {kind(KIND).counted(changed)}. Reason: {form.cleaned_data['reason']}"]
        texts += [STOPS] if form.changes.get(RESERVE) else []
        texts += [line for group in found for line in lines(group)]
        columns = {name: column(form.changes) for key, (name, column) in COLUMNS.items() if key in form.changes}
        table = pending.first(self.get_queryset(request).select_related("notification"), columns)
        values = {name: request.POST[name] for name in form.fields if name in request.POST}
        pending = replace(pending, hidden={**pending.hidden, **values, **({APPLY: "1"} if changed else {})})
        button = f"Change {kind(KIND).counted(changed)}" if changed else "Preview again"
        return confirmation.ask(request, self, pending, f"{title}: preview", texts, table, button=button)


def lines(group: Group) -> list[str]:
    which = f"{kind(KIND).counted(group.count)} on {group.network}"
    if group.fault:
        return [f"Refused: {which}: {group.fault}."]
    return [f"Note: {which}: {group.warning}."] if group.warning else []


def arrow(before: str, after: str | None) -> str:
    return before if after is None or before == after else f"{before} → {after}"


def nodes_column(changes: dict[str, Any]) -> Callable[[Relayer], str]:
    def shown(relayer: Relayer) -> str:
        before = hosts(relayer.masked_rpc_urls)
        return arrow(before, hosts(changes[NODES], mask) if NODES in changes else None)

    return shown


def hosts(entries: list[dict[str, Any]], shown: Callable[[str], str] = str) -> str:
    return ", ".join(shown(entry["url"]) for entry in entries) or "those of the network"


def webhook_column(changes: dict[str, Any]) -> Callable[[Relayer], str]:
    new = Notification.objects.filter(pk=changes[WEBHOOK]).first() if changes.get(WEBHOOK) else None

    def shown(relayer: Relayer) -> str:
        return arrow(str(relayer.notification or "none"), str(new or "none") if WEBHOOK in changes else None)

    return shown


def amount_column(
    name: str, stored: Callable[[Relayer], int | None], changes: dict[str, Any]
) -> Callable[[Relayer], str]:
    def shown(relayer: Relayer) -> str:
        try:
            new = amount_or_none(relayer, typed_amount(relayer, name, changes[name])) if name in changes else None
        except ValidationError:
            new = "refused"
        return arrow(amount_or_none(relayer, stored(relayer)), new)

    return shown


def amount_or_none(relayer: Relayer, value: int | None) -> str:
    return "none" if value is None else coins(value, networks().get(relayer.network))


COLUMNS: dict[str, tuple[str, Callable[[dict[str, Any]], Callable[[Relayer], str]]]] = {
    NODES: ("Nodes", nodes_column),
    WEBHOOK: ("Webhook", webhook_column),
    MINIMUM: ("Minimum balance", partial(amount_column, MINIMUM, lambda relayer: relayer.policies.get(MINIMUM))),
    RESERVE: ("Reserve", partial(amount_column, RESERVE, lambda relayer: relayer.reserve or None)),
}
