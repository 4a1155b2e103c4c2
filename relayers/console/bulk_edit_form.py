"""The form of a bulk edit: for each setting, what to do with it, and the value to do it with."""

from collections.abc import Collection, Iterator
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.forms.boundfield import BoundField
from rest_framework import exceptions
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from notifications.models import Notification
from relayer_service import extensions
from relayer_service.amounts import COINS
from relayer_service.console.base import KeySelect
from relayer_service.console.confirmation import ReasonForm
from relayers.console.forms import TagsField
from relayers.jobs import bulk_edits
from relayers.jobs.bulk_edits import ADD, REMOVE, SET, TOP_UP_AMOUNTS
from relayers.models import Relayer
from relayers.policy_fields import FORM_FIELDS, TEXTS, not_set
from relayers.serializers.networks import RpcUrlsField
from spending.console.rule_fields import LISTS as RULE_LISTS
from spending.console.rule_fields import LimitsForm, SpendingRulesField

KEEP, CLEAR = "", "clear"
LISTS = {ADD: "Add these", REMOVE: "Remove these", SET: "Replace by these"}
TOP_UP_VALUES = [f"top_up_{name}" for name in TOP_UP_AMOUNTS]
# What the fields of each setting start with; the first one that needs an own value is named like it.
SETTINGS = {
    "gas_price_cap": bulk_edits.GAS_CAP,
    "eip1559": bulk_edits.EIP1559,
    "minimum": bulk_edits.MINIMUM,
    "reserve": bulk_edits.RESERVE,
    "whitelist": bulk_edits.WHITELIST,
    "rules": bulk_edits.RULES,
    "top_up": bulk_edits.TOP_UP,
    "signing": bulk_edits.SIGNING,
    "webhook": bulk_edits.WEBHOOK,
    "nodes": bulk_edits.NODES,
    "tags": bulk_edits.TAGS,
}
# The change that clears a setting; of others None.
CLEARED: dict[str, Any] = {"gas_price_cap": "", "minimum": "", "reserve": "", "nodes": [], "rules": {}, "signing": []}


def change_field(label: str, choices: dict[str, str]) -> forms.ChoiceField:
    options = [(KEEP, "Leave unchanged"), *choices.items()]
    return forms.ChoiceField(label=label, choices=options, required=False, widget=UnfoldAdminSelectWidget)


def set_or_clear(label: str, clear: str, set_to: str = "Set to this amount") -> forms.ChoiceField:
    return change_field(label, {SET: set_to, CLEAR: clear})


def policy_change(name: str, choices: dict[str, str]) -> forms.ChoiceField:
    texts = TEXTS[name]
    return change_field(texts.label, {**choices, CLEAR: not_set(texts.unset)})


def amount_field(label: str, help_text: str, example: str = "0.5 ETH, in the coin of the network") -> forms.CharField:
    text = f"{help_text} For example {example}; without a unit, in wei."
    return forms.CharField(
        label=label, required=False, max_length=160, widget=UnfoldAdminTextInputWidget, help_text=text.strip()
    )


def lines_field(label: str, help_text: str) -> forms.CharField:
    attrs = {"rows": 3, "spellcheck": "false", "autocomplete": "off"}
    widget = UnfoldAdminTextareaWidget(attrs=attrs)
    return forms.CharField(label=label, required=False, widget=widget, help_text=f"One per line. {help_text}".strip())


class BulkEditForm(ReasonForm):
    gas_price_cap_change = policy_change(bulk_edits.GAS_CAP, {SET: "Set to this price"})
    gas_price_cap = amount_field("New gas price cap", "Maximum gas price.", "30 gwei")
    eip1559_change = policy_change(bulk_edits.EIP1559, {"yes": "Yes", "no": "No"})
    minimum_change = policy_change(bulk_edits.MINIMUM, {SET: "Set to this amount"})
    minimum = amount_field("New minimum balance", "Below it, the relayer needs attention. It keeps sending.")
    reserve_change = set_or_clear("Reserve", "No reserve")
    reserve = amount_field("New reserve", "It stops sending what could leave less.")
    whitelist_change = policy_change(bulk_edits.WHITELIST, LISTS)
    whitelist = lines_field("Receivers", "If the list becomes empty, nothing is sent.")
    rules_change = set_or_clear("Spending rules", "No rules", "Replace by these rules")
    rules = SpendingRulesField(required=False, label="New spending rules")
    top_up_change = set_or_clear("Automatic top-up", "No top-up", "Set to this one")
    top_up = forms.ModelChoiceField(Relayer.objects.all(), required=False, label="Funding relayer")
    top_up_minimum = amount_field("Top-up minimum", "Balance below which it is topped up.")
    top_up_target = amount_field("Top-up target", "Balance up to which it is topped up.")
    top_up_daily_limit = amount_field("Top-up daily limit", "Maximum that it receives in any 24 hours.")
    signing_change = set_or_clear("Allow signing", "Nothing", "Allow these")
    signing = forms.MultipleChoiceField(
        label="What can be signed",
        required=False,
        choices=Relayer.SigningKind.choices,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text="A signed permit (EIP-2612) can empty the account without a transaction.",
    )
    webhook_change = set_or_clear("Webhook", "No webhook", "Set to this webhook")
    webhook = forms.ModelChoiceField(
        Notification.objects.filter(type=Notification.Type.WEBHOOK), required=False, label="New webhook"
    )
    nodes_change = set_or_clear("Nodes", "Use the network's nodes", "Replace with these RPC URLs")
    nodes = lines_field("RPC URLs", "Each has the weight 100. Stored encrypted; only the host is shown.")
    tags_change = change_field("Tags", {**LISTS, CLEAR: "No tags"})
    tags = TagsField(label="Names of tags", help_text="Separated by spaces. Tokens with tag:NAME reach those with it.")

    def __init__(self, data: Any = None, *, refused: Collection[str]) -> None:
        super().__init__(data, required=True)
        self.order_fields([name for name in self.fields if name != "reason"])
        for name, column in (("webhook", "notification"), ("top_up", "funding_relayer")):
            field: Any = self.fields[name]
            field.widget = KeySelect(Relayer._meta.get_field(column), admin.site)
            field.widget.choices = field.choices
        rules: Any = self.fields["rules"]
        rules.edit(data, {}, COINS)
        hidden = [name for name, change in SETTINGS.items() if change in refused]
        hidden += [] if extensions.is_enabled("signing") else ["signing"]
        hidden += [] if extensions.is_enabled("transactions") else ["top_up"]
        for setting in hidden:
            for name in self.names(setting):
                del self.fields[name]
        # What the job is started with.
        self.changes: dict[str, Any] = {}

    def names(self, setting: str) -> list[str]:
        """Return the fields of a setting: the choice, and the values."""
        values = ["top_up", *TOP_UP_VALUES] if setting == "top_up" else [setting]
        return [name for name in (f"{setting}_change", *values) if name in self.fields]

    def groups(self) -> Iterator[list[BoundField]]:
        """Yield the fields of each setting, whose values a page shows once a change is chosen."""
        yield from ([self[name] for name in found] for setting in SETTINGS if (found := self.names(setting)))
        yield [self["reason"]]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        for setting, change in SETTINGS.items():
            chosen = cleaned.get(f"{setting}_change", KEEP)
            if chosen == KEEP:
                self._refuse_value(setting)
            elif chosen == CLEAR:
                self.changes[change] = CLEARED.get(setting)
            else:
                self._read(setting, chosen)
        if not self.changes and not self.errors:
            raise forms.ValidationError("Choose at least one change.")
        return cleaned

    def _refuse_value(self, setting: str) -> None:
        """Refuse a value without a choice, which would be ignored."""
        choice, *values = self.names(setting) or [""]
        if choice and choice not in self.errors and any(self.cleaned_data.get(name) for name in values):
            self.add_error(choice, "Choose what to do with the value below, or empty it.")

    def _read(self, setting: str, chosen: str) -> None:
        if setting == "eip1559":
            self.changes[SETTINGS[setting]] = chosen == "yes"
            return
        missing = [name for name in self.names(setting)[1:] if not self.cleaned_data.get(name)]
        for name in missing:
            if name not in self.errors:
                self.add_error(name, "This field is required.")
        if missing:
            return
        try:
            self.changes[SETTINGS[setting]] = self._value(setting, chosen)
        except ValidationError as error:
            self.add_error(setting, error)

    def _value(self, setting: str, chosen: str) -> Any:
        value = self.cleaned_data[setting]
        match setting:
            case "webhook":
                return value.pk
            case "top_up":
                amounts = {name: self.cleaned_data[f"top_up_{name}"] for name in TOP_UP_AMOUNTS}
                return {"funding_relayer_id": value.pk, **amounts}
            case "whitelist":
                return [chosen, FORM_FIELDS[bulk_edits.WHITELIST].clean(value)]
            case "tags":
                return [chosen, value]
            case "nodes":
                return nodes(value)
        return value


def preview_labels() -> dict[str, str]:
    """Return the label of each setting by its name in audit entries."""
    labels = {name: str(field.label) for name, field in BulkEditForm.base_fields.items()}
    settings = {change: labels[f"{setting}_change"] for setting, change in SETTINGS.items()}
    return {
        **settings,
        **{f"policies.{name}": settings[name] for name in FORM_FIELDS if name in settings},
        "notification_id": settings[bulk_edits.WEBHOOK],
        f"{bulk_edits.TOP_UP}.funding_relayer_id": labels["top_up"],
        **{f"{bulk_edits.TOP_UP}.{name}": labels[f"top_up_{name}"] for name in TOP_UP_AMOUNTS},
        **{f"{bulk_edits.RULES}.{name}": str(field.label) for name, field in LimitsForm.base_fields.items()},
        **{f"{bulk_edits.RULES}.{name}": f"Spending rules, {name}" for name in RULE_LISTS},
    }


LABELS = preview_labels()


def nodes(urls: str) -> list[dict[str, Any]]:
    try:
        return [dict(entry) for entry in RpcUrlsField().run_validation([{"url": url} for url in urls.split()])]
    except exceptions.ValidationError as error:
        raise forms.ValidationError(list(node_faults(error.detail))) from None


def node_faults(detail: Any) -> Iterator[str]:
    """Yield the faults of nodes, each with its line and without its URL."""
    if not isinstance(detail, dict):
        yield from map(str, detail)
        return
    for index, faults in detail.items():
        yield from (f"Line {int(index) + 1}: {fault}" for texts in faults.values() for fault in texts)
