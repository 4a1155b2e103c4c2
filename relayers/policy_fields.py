"""The admin's form field of each policy: staff enter text, which the policy's API field validates."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from django import forms
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from chain.networks import Network
from chain.units import amount, coins, whole_number
from relayer_service.api.serializers import BooleanField, IntegerField
from relayers.policies import EvmPolicies
from spending.console.rule_fields import fault_texts

PREFIX = "policy_"
CHOICES = [("", "Not set"), ("yes", "Yes"), ("no", "No")]

Policy = serializers.Field[Any, Any, Any, Any]


class TypedField(forms.CharField):
    """Text that `parse` turns into the value of a policy; None if it is empty."""

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
            raise forms.ValidationError(list(fault_texts(error.detail, parsed))) from None


class AmountField(TypedField):
    """An amount of the native coin: a whole number of wei, or a number with its unit, such as `0.5 ETH`."""

    def show_in(self, network: Network | None, value: int | None) -> None:
        """Accept the coin of a network, and show the stored value in it."""
        self.parse = partial(amount, network=network)
        what, symbol = str(self.policy.help_text).removesuffix("."), network.symbol if network else "ETH"
        now = "" if value is None else f"Set to {coins(value, network)}. "
        self.help_text = f"{now}{what}, or in the network's coin, for example 0.5 {symbol}."


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
            # The choices are "Yes" and "No".
            help_text=re.sub("If false[:,]", "No:", help_text),
        )
    if name == "min_balance":
        widget = UnfoldAdminTextInputWidget(attrs={"placeholder": "Not set"})
        return AmountField(policy, whole_number, label=label, widget=widget, help_text=help_text)
    if isinstance(policy, IntegerField):
        # A text input, as browsers round large numbers.
        number = UnfoldAdminTextInputWidget(attrs={"inputmode": "numeric", "placeholder": "Not set"})
        return TypedField(policy, whole_number, label=label, widget=number, help_text=help_text)
    lines = UnfoldAdminTextareaWidget(attrs={"rows": 3, "spellcheck": "false", "placeholder": "Not set"})
    return TypedField(policy, str.split, label=label, widget=lines, help_text=f"{help_text} One per line.")


FORM_FIELDS = {name: form_field(name, policy) for name, policy in EvmPolicies().fields.items()}


def shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "\n".join(value) if isinstance(value, list) else str(value)
