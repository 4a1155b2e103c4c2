"""A field of the admin's form for each policy: staff read and type text, the policy's own rules check it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django import forms
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from relayer_service.api.serializers import BooleanField, IntegerField
from relayers.policies import EvmPolicies, validate_policies

PREFIX = "policy_"
CHOICES = [("", "Not set"), ("yes", "Yes"), ("no", "No")]
MAX_DIGITS = 40
MAX_QUOTE = 60


def whole_number(text: str) -> int | str:
    """Return digits as a number; any other text as it is, for the rules to refuse."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else text


def form_fields() -> dict[str, forms.Field]:
    return {f"{PREFIX}{name}": form_field(name, field) for name, field in EvmPolicies().fields.items()}


def form_field(name: str, field: serializers.Field[Any, Any, Any, Any]) -> forms.Field:
    label, help_text = name.replace("_", " ").capitalize().replace("Eip1559", "EIP-1559"), str(field.help_text)
    if isinstance(field, BooleanField):
        return forms.ChoiceField(
            label=label, required=False, choices=CHOICES, widget=UnfoldAdminSelectWidget, help_text=help_text
        )
    if isinstance(field, IntegerField):
        # Text, as browsers round such large numbers.
        widget: forms.Widget = UnfoldAdminTextInputWidget(attrs={"inputmode": "numeric", "placeholder": "Not set"})
    else:
        widget = UnfoldAdminTextareaWidget(attrs={"rows": 3, "spellcheck": "false", "placeholder": "Not set"})
        help_text = f"{help_text} One on each line."
    return forms.CharField(label=label, required=False, widget=widget, help_text=help_text)


def shown(value: Any) -> str:
    """Return the value of a policy as its field shows it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "\n".join(value) if isinstance(value, list) else str(value)


def typed(name: str, text: str) -> Any:
    """Return the value that was typed for a policy; None where it is not set."""
    field = EvmPolicies().fields[name]
    if not text.strip():
        return None
    if isinstance(field, BooleanField):
        return text == "yes"
    return whole_number(text) if isinstance(field, IntegerField) else text.split()


def changed(network_type: str, policies: dict[str, Any], texts: dict[str, str]) -> dict[str, Any]:
    """Return policies with those replaced that were typed; raise a fault for each invalid one."""
    values = policies | {name: typed(name, text) for name, text in texts.items()}
    values = {name: value for name, value in values.items() if value is not None}
    try:
        return validate_policies(network_type, values)
    except ValidationError as error:
        assert isinstance(error.detail, dict)
        faults = {f"{PREFIX}{name}": list(_texts(detail, values[name])) for name, detail in error.detail.items()}
        raise forms.ValidationError(faults) from None


def _texts(detail: Any, value: Any) -> Iterator[str]:
    """Yield the faults of one policy; those of a list name the entry."""
    if isinstance(detail, dict):
        for index, faults in detail.items():
            yield from (f"{value[int(index)][:MAX_QUOTE]}: {fault}" for fault in faults)
    else:
        yield from map(str, detail)
