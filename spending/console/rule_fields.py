"""The admin's editor for spending rules: a field for each limit, and a row for each receiver and token."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django import forms
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from eth_utils.address import is_hex_address
from rest_framework.exceptions import ValidationError
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget, UnfoldBooleanWidget

from relayer_service.amounts import Currency
from relayer_service.evm import checksummed
from spending.console.currencies import find_on_network
from spending.console.formatting import AMOUNTS, TOKEN_AMOUNTS
from spending.rules import Rules
from spending.shape import MAX_RECEIVERS, MAX_TOKENS, validate_rules

PREFIX = "spending"
LISTS = ("receivers", "tokens")
GONE = "The rules were changed concurrently. Reload the page."
MAX_QUOTE = 60


def _text(label: str, placeholder: str, **kwargs: Any) -> forms.CharField:
    attrs = {"autocomplete": "off", "spellcheck": "false", "placeholder": placeholder, "aria-label": label}
    return forms.CharField(label=label, required=False, widget=UnfoldAdminTextInputWidget(attrs=attrs), **kwargs)


class LimitsForm(forms.Form):
    # The rules that the page showed, so that a concurrent change is not reverted.
    shown = forms.CharField(required=False, widget=forms.HiddenInput)
    max_value = _text("Maximum value of a transaction", "No limit")
    max_value_per_day = _text("Maximum value within 24 hours", "No limit")
    max_gas_cost_per_day = _text("Maximum cost of gas within 24 hours", "No limit")
    only_listed = forms.BooleanField(
        label="Refuse receivers that are not listed", required=False, widget=UnfoldBooleanWidget
    )


def with_labels(warning: str) -> str:
    """Return a warning about rules with the label of the form instead of the API's name."""
    name = "max_gas_cost_per_day"
    return warning.replace(name, f"“{LimitsForm.base_fields[name].label}”")


class ReceiverRow(forms.Form):
    address = _text("Receiver", "0x and 40 digits")
    selectors = _text("Selectors", "Every call")
    remove = forms.BooleanField(required=False, widget=UnfoldBooleanWidget)


class TokenRow(forms.Form):
    contract = _text("Token contract", "0x and 40 digits")
    recipients = forms.CharField(
        label="Recipients and spenders",
        required=False,
        widget=UnfoldAdminTextareaWidget(
            attrs={"rows": 3, "spellcheck": "false", "placeholder": "Any", "aria-label": "Recipients and spenders"}
        ),
    )
    max_amount = _text("Maximum of a transfer or approval", "No limit")
    max_amount_per_day = _text("Maximum within 24 hours", "No limit")
    remove = forms.BooleanField(required=False, widget=UnfoldBooleanWidget)


ReceiverRows: Any = forms.formset_factory(ReceiverRow, extra=1, max_num=MAX_RECEIVERS, absolute_max=2 * MAX_RECEIVERS)
TokenRows: Any = forms.formset_factory(TokenRow, extra=1, max_num=MAX_TOKENS, absolute_max=2 * MAX_TOKENS)


class RulesEditor:
    """The fields and rows of one form, with the stored rules or with what staff typed over those they were shown."""

    def __init__(self, data: Any, stored: Rules, coin: Currency, network: str | None = None) -> None:
        # A form of staff who cannot set rules does not send them.
        sent = data if data is not None and f"{PREFIX}-shown" in data else None
        self.stored, self.is_bound = dict(stored), sent is not None
        # Of tokens, symbols are known on one network alone.
        self.coin, self.network = coin, network
        initial = {"shown": json.dumps(self.stored), "only_listed": "receivers" in stored}
        initial |= _shown_amounts(stored, AMOUNTS, coin)
        tokens = _initial(stored, "tokens")
        known = find_on_network(network, [entry["contract"] for entry in tokens])
        tokens = [entry | _shown_amounts(entry, TOKEN_AMOUNTS, known[entry["contract"]]) for entry in tokens]
        self.limits = LimitsForm(sent, prefix=PREFIX, initial=initial)
        self.receivers = ReceiverRows(data=sent, prefix=f"{PREFIX}_receivers", initial=_initial(stored, "receivers"))
        self.tokens = TokenRows(data=sent, prefix=f"{PREFIX}_tokens", initial=tokens)
        # The typed rules as `validate_rules` returns them; None if they have faults.
        self.rules: dict[str, Any] | None = self.stored
        self.faults: list[str] = []
        if self.is_bound:
            self._read()

    @property
    def is_changed(self) -> bool:
        """Whether staff typed other rules than they were shown."""
        return self.rules is None or (self.is_bound and self.rules != self._shown())

    def _shown(self) -> Any:
        try:
            return json.loads(self.limits["shown"].value() or "{}")
        except ValueError:
            return None

    def _read(self) -> None:
        self.rules = None
        if not (self.limits.is_valid() and self.receivers.is_valid() and self.tokens.is_valid()):
            self.faults += [*map(str, self.receivers.non_form_errors()), *map(str, self.tokens.non_form_errors())]
            return
        rows = {
            "receivers": [row for row in self.receivers if _is_filled(row)],
            "tokens": [row for row in self.tokens if _is_filled(row)],
        }
        typed = self._typed(rows)
        try:
            rules = validate_rules(typed)
        except ValidationError as error:
            self._add_faults(error.detail, rows, typed)
            return
        if not self.limits.errors and not any(row.errors for row in rows["tokens"]):
            self.rules = rules
            if self.is_changed and self.stored != self._shown():
                self.rules, self.faults = None, [GONE]

    def _typed(self, rows: Mapping[str, list[Any]]) -> dict[str, Any]:
        typed = _parsed_amounts(self.limits, AMOUNTS, self.coin)
        if rows["receivers"] or self.limits.cleaned_data["only_listed"]:
            typed["receivers"] = [_entry(row.cleaned_data, "selectors") for row in rows["receivers"]]
        contracts = [_contract(row) for row in rows["tokens"]]
        known = find_on_network(self.network, contracts)
        typed["tokens"] = [
            _entry(row.cleaned_data, "recipients") | _parsed_amounts(row, TOKEN_AMOUNTS, known[contract])
            for row, contract in zip(rows["tokens"], contracts, strict=True)
        ]
        return typed

    def _add_faults(self, detail: Any, rows: Mapping[str, list[Any]], typed: Mapping[str, Any]) -> None:
        for name, faults in detail.items():
            if name in AMOUNTS:
                self.limits.add_error(name, [str(fault) for fault in faults])
            elif name in LISTS and isinstance(faults, dict):
                for index, entry in faults.items():
                    for field, texts in entry.items():
                        values = typed[name][int(index)].get(field)
                        rows[name][int(index)].add_error(field, list(fault_texts(texts, values)))
            else:
                self.faults += [f"{name}: {fault}" if name in LISTS else str(fault) for fault in faults]


def _initial(stored: Rules, name: str) -> list[dict[str, str]]:
    """Return the entries of a list as text: its own lists one after the other, a recipient on each line."""
    joined = {"selectors": " ", "recipients": "\n"}
    return [
        {key: joined[key].join(value) if key in joined else value for key, value in entry.items()}
        for entry in stored.get(name, ())
    ]


def _shown_amounts(stored: Rules, names: Iterable[str], currency: Currency) -> dict[str, str]:
    return {name: currency.show(int(stored[name])) for name in names if name in stored}


def _parsed_amounts(form: forms.Form, names: Iterable[str], currency: Currency) -> dict[str, Any]:
    """Return the amounts of a form. One with a fault, which is added to its field, does not cause others."""
    typed: dict[str, Any] = {}
    for name in names:
        try:
            typed |= {name: currency.parse(text)} if (text := form.cleaned_data[name]) else {}
        except forms.ValidationError as error:
            form.add_error(name, error)
            typed[name] = 0
    return typed


def _contract(row: forms.Form) -> str:
    """Return the contract of a row with its checksum, as configured tokens have it."""
    text: str = row.cleaned_data["contract"]
    return checksummed(text) if is_hex_address(text) else text


def _is_filled(row: Any) -> bool:
    values = row.cleaned_data
    return not values.get("remove") and any(value for name, value in values.items() if name != "remove")


def _entry(values: Mapping[str, Any], listed: str) -> dict[str, Any]:
    entry = {name: value for name, value in values.items() if value and name != "remove"}
    return {**entry, listed: entry[listed].replace(",", " ").split()} if listed in entry else entry


def fault_texts(faults: Any, values: Any) -> Iterator[str]:
    """Yield the faults of a value, or of a list of texts, each with the text that it is about."""
    if isinstance(faults, dict):
        for index, texts in faults.items():
            yield from (f"{values[int(index)][:MAX_QUOTE]}: {text}" for text in texts)
    else:
        yield from map(str, faults)


class RulesWidget(forms.Widget):
    editor: RulesEditor
    input_type = "rows"

    class Media:
        css = {"all": ["spending/admin.css"]}

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        context = {"editor": self.editor, "id": (attrs or {}).get("id")}
        return render_to_string("admin/spending/rules.html", context)

    def value_from_datadict(self, data: Any, files: Any, name: str) -> None:
        return None


class SpendingRulesField(forms.Field):
    """The spending rules of a form's instance; its form calls `edit` with them."""

    widget: RulesWidget = RulesWidget  # type: ignore[assignment]  # Django instantiates it
    editor: RulesEditor

    def edit(self, data: Any, stored: Rules, coin: Currency, network: str | None = None) -> None:
        self.editor = self.widget.editor = RulesEditor(data, stored, coin, network)

    def clean(self, value: Any) -> Any:
        if self.editor.rules is None:
            raise forms.ValidationError(self.editor.faults or ["Correct the marked fields."])
        return self.editor.rules

    def has_changed(self, initial: Any, data: Any) -> bool:
        return self.editor.is_changed

    def shown_warning(self, warning: str) -> str:
        return with_labels(warning)
