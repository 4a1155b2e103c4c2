"""A field of the admin's form for each policy: staff read and type text, the policy's own rules check it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from django import forms
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from relayer_service.api.serializers import BooleanField, IntegerField
from relayers.policies import EvmPolicies

PREFIX = "policy_"
CHOICES = [("", "Not set"), ("yes", "Yes"), ("no", "No")]
MAX_DIGITS = 40
MAX_QUOTE = 60

Policy = serializers.Field[Any, Any, Any, Any]


def whole_number(text: str) -> int | str:
    """Return digits as a number; any other text as it is, for the rules to refuse."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else text


class TypedField(forms.CharField):
    """Text that `parse` makes the value of a policy from; None where it is not set."""

    def __init__(self, policy: Policy, parse: Callable[[str], Any], **kwargs: Any) -> None:
        super().__init__(required=False, **kwargs)
        self.policy, self.parse = policy, parse

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        if not text:
            return None
        parsed = self.parse(text)
        try:
            return self.policy.run_validation(parsed)
        except ValidationError as error:
            raise forms.ValidationError(list(_texts(error.detail, parsed))) from None


def _texts(detail: Any, value: Any) -> Iterator[str]:
    """Yield the faults of one policy; those of a list name the entry."""
    if isinstance(detail, dict):
        for index, faults in detail.items():
            yield from (f"{value[int(index)][:MAX_QUOTE]}: {fault}" for fault in faults)
    else:
        yield from map(str, detail)


def form_field(name: str, policy: Policy) -> forms.Field:
    label, help_text = name.replace("_", " ").capitalize().replace("Eip1559", "EIP-1559"), str(policy.help_text)
    if isinstance(policy, BooleanField):
        return forms.TypedChoiceField(
            label=label,
            required=False,
            choices=CHOICES,
            coerce=lambda text: text == "yes",
            empty_value=None,
            widget=UnfoldAdminSelectWidget,
            help_text=help_text,
        )
    if isinstance(policy, IntegerField):
        # Text, as browsers round such large numbers.
        number = UnfoldAdminTextInputWidget(attrs={"inputmode": "numeric", "placeholder": "Not set"})
        return TypedField(policy, whole_number, label=label, widget=number, help_text=help_text)
    lines = UnfoldAdminTextareaWidget(attrs={"rows": 3, "spellcheck": "false", "placeholder": "Not set"})
    return TypedField(policy, str.split, label=label, widget=lines, help_text=f"{help_text} One on each line.")


# By the policy's name.
FORM_FIELDS = {name: form_field(name, policy) for name, policy in EvmPolicies().fields.items()}


def shown(value: Any) -> str:
    """Return the value of a policy as its field shows it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "\n".join(value) if isinstance(value, list) else str(value)
