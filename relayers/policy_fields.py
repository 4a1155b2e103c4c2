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
from chain.units import amount, coins, gwei
from relayer_service.amounts import whole_number
from relayer_service.api.serializers import BooleanField, IntegerField
from relayers.policies import EvmPolicies
from relayers.serializers.top_ups import RESERVE_FIELD
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
    """An amount with its unit, such as `0.5 ETH` or `30 gwei`; without one, in wei."""

    def __init__(self, policy: Policy, *, is_price: bool = False, **kwargs: Any) -> None:
        widget = UnfoldAdminTextInputWidget(attrs={"placeholder": "Not set"})
        super().__init__(policy, whole_number, widget=widget, **kwargs)
        self.is_price = is_price
        self.show_in(None, None)

    def show_in(self, network: Network | None, value: int | None) -> None:
        """Accept the coin of a network, and show the stored value in it."""
        self.parse = partial(amount, network=network)
        self.initial = "" if value is None else self.shown(value, network)
        example = "30 gwei" if self.is_price else f"0.5 {network.symbol if network else 'ETH'}"
        what = str(self.policy.help_text).replace(", in wei", "")
        self.help_text = f"{what} For example {example}; without a unit, in wei."

    def shown(self, value: int, network: Network | None) -> str:
        return gwei(value) if self.is_price else coins(value, network)


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
    if isinstance(policy, IntegerField):
        return AmountField(policy, is_price=name == "gas_price_cap", label=label)
    lines = UnfoldAdminTextareaWidget(attrs={"rows": 3, "spellcheck": "false", "placeholder": "Not set"})
    return TypedField(policy, str.split, label=label, widget=lines, help_text=f"{help_text} One per line.")


FORM_FIELDS = {name: form_field(name, policy) for name, policy in EvmPolicies().fields.items()}
RESERVE_FORM_FIELD = AmountField(RESERVE_FIELD, label="Reserve")


def shown_policy(name: str, value: Any, network: Network | None) -> str:
    field = FORM_FIELDS.get(name)
    return field.shown(value, network) if isinstance(field, AmountField) else shown(value)


def shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "\n".join(value) if isinstance(value, list) else str(value)
