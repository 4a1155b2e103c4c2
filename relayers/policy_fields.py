"""The admin's form field of each policy: staff enter text, which the policy's API field validates."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

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


class PolicyTexts(NamedTuple):
    """The label of a policy, what applies if it is not set, and what it does."""

    label: str
    unset: str
    help: str


TEXTS = {
    "eip1559_pricing": PolicyTexts(
        "EIP-1559 pricing",
        "yes",
        "Price transactions with a maximum fee and a priority fee. If no, with a single gas price.",
    ),
    "gas_limit_estimation": PolicyTexts(
        "Gas limit estimation",
        "yes",
        "Estimate the gas limit of each transaction. If no, requests must include it.",
    ),
    "gas_price_cap": PolicyTexts("Gas price cap", "no cap", "The highest price of gas that transactions pay."),
    "min_balance": PolicyTexts(
        "Minimum balance", "no minimum", "Below it, the relayer needs attention. It keeps sending."
    ),
    "private_transactions": PolicyTexts(
        "Private transactions",
        "no",
        "Send transactions to private nodes, which do not publish them before they are mined.",
    ),
    "whitelist_receivers": PolicyTexts(
        "Allowed receivers",
        "any receiver",
        "The only addresses that transactions can be sent to. One per line.",
    ),
}

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

    def __init__(
        self, policy: Policy, *, is_price: bool = False, text: str = "", unset: str = "", **kwargs: Any
    ) -> None:
        widget = UnfoldAdminTextInputWidget(attrs={"placeholder": not_set(unset)})
        super().__init__(policy, whole_number, widget=widget, **kwargs)
        self.is_price, self.text = is_price, text or str(policy.help_text).replace(", in wei", "")
        self.show_in(None, None)

    def show_in(self, network: Network | None, value: int | None) -> None:
        """Accept the coin of a network, and show the stored value in it."""
        self.parse = partial(amount, network=network)
        self.initial = "" if value is None else self.shown(value, network)
        example = "30 gwei" if self.is_price else f"0.5 {network.symbol if network else 'ETH'}"
        self.help_text = f"{self.text} For example {example}; without a unit, in wei."

    def shown(self, value: int, network: Network | None) -> str:
        return gwei(value) if self.is_price else coins(value, network)


def not_set(default: str) -> str:
    return f"Not set: {default}" if default else "Not set"


def form_field(name: str, policy: Policy) -> forms.Field:
    label, unset, text = TEXTS[name]
    if isinstance(policy, BooleanField):
        return forms.TypedChoiceField(
            label=label,
            required=False,
            choices=[("", not_set(unset)), ("yes", "Yes"), ("no", "No")],
            coerce=lambda text: text == "yes",
            empty_value=None,
            widget=UnfoldAdminSelectWidget,
            help_text=text,
        )
    if isinstance(policy, IntegerField):
        return AmountField(policy, is_price=name == "gas_price_cap", text=text, unset=unset, label=label)
    attrs = {"rows": 3, "spellcheck": "false", "placeholder": not_set(unset)}
    return TypedField(policy, str.split, label=label, widget=UnfoldAdminTextareaWidget(attrs=attrs), help_text=text)


FORM_FIELDS = {name: form_field(name, policy) for name, policy in EvmPolicies().fields.items()}
RESERVE_FORM_FIELD = AmountField(RESERVE_FIELD, unset="no reserve", label="Reserve")


def shown_policy(name: str, value: Any, network: Network | None) -> str:
    field = FORM_FIELDS.get(name)
    return field.shown(value, network) if isinstance(field, AmountField) else shown(value)


def shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "\n".join(value) if isinstance(value, list) else str(value)
