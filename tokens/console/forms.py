from collections.abc import Callable
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

from django import forms
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminTextareaWidget,
)

from relayer_service import extensions
from relayer_service.console.forms import ResourceForm
from spending.console.rule_fields import SpendingRulesField
from spending.writes import stored_rules
from tokens.models import AccessToken
from tokens.scopes import WITHOUT_SCOPES, Scope
from tokens.writes import DEFAULT_OVERLAP, MAX_OVERLAP, AccessTokenWrite

HOUR = timedelta(hours=1)


class LinesField(forms.CharField):
    """A list of strings, edited one per line."""

    widget = UnfoldAdminTextareaWidget(attrs={"rows": 3})

    def __init__(self, *, placeholder: str, **kwargs: Any) -> None:
        super().__init__(required=False, **kwargs)
        self.widget.attrs["placeholder"] = placeholder
        self.help_text += " One per line."

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        # IDs may contain spaces, and the separators of Unicode, at which `splitlines` splits.
        return [line for each in (value or "").split("\n") if (line := each.strip(" \t\r"))]


def is_within_networks(before: list[str], after: list[str]) -> bool:
    """Return whether the new networks are within the old ones; an empty list means all addresses."""
    try:
        old: list[Any] = [ip_network(each) for each in before]
        new: list[Any] = [ip_network(each) for each in after]
    except ValueError:
        # The model rejects it.
        return True
    within = all(any(each.version == one.version and each.subnet_of(one) for one in old) for each in new)
    return not old or (bool(new) and within)


# The fields that only superusers can widen: whether a change narrows a token, and the error.
NARROWED: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "enabled": (lambda before, after: before or not after, "Only superusers can re-enable a token."),
    "expires_at": (
        lambda before, after: before is None or (after is not None and after <= before),
        "Only superusers can extend a token.",
    ),
    "allowed_networks": (is_within_networks, "Only superusers can add networks to a token."),
}


class AccessTokenForm(ResourceForm):
    write_class = AccessTokenWrite
    # Set by the admin for superusers.
    can_widen = False

    allowed_networks = LinesField(
        placeholder="10.0.0.0/8",
        help_text="Addresses or CIDR networks it is accepted from. If empty, it is accepted from any address.",
    )
    scopes = forms.MultipleChoiceField(
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text=f"Extra permissions. Every token can already: {WITHOUT_SCOPES}.",
    )
    allowed_relayers = LinesField(
        placeholder="payments-1",
        help_text="IDs of relayers that it can send and sign with. With the scope manage it can change their names "
        "and policies and pause them, and nothing else. If empty, all relayers.",
    )

    spending_rules = SpendingRulesField(
        required=False,
        label="Spending rules",
        help_text="They apply in addition to the rules of the relayer.",
    )

    class Meta:
        model = AccessToken
        fields = ["name", "user", "enabled", "expires_at", "allowed_networks", "scopes", "allowed_relayers"]
        help_texts = {"enabled": "A disabled token is rejected. Its successors are disabled with it."}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "scopes" in self.fields:
            labels = dict(Scope.choices)
            # Including the token's own, even if their extension is disabled.
            offered = dict.fromkeys([*extensions.available_scopes(), *self.instance.scopes])
            field: Any = self.fields["scopes"]
            field.choices = [(scope, f"{scope}: {labels.get(scope, 'unknown')}") for scope in offered]

        if "spending_rules" in self.fields:
            rules: Any = self.fields["spending_rules"]
            rules.edit(self.data if self.is_bound else None, stored_rules(self.instance))

    def values(self, cleaned: dict[str, Any]) -> dict[str, Any]:
        is_changed = "spending_rules" in cleaned and "spending_rules" in self.changed_data
        return {"spending_rules": cleaned["spending_rules"]} if is_changed else {}

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if self.instance.pk and not self.can_widen:
            for name, (is_narrower, message) in NARROWED.items():
                if name in cleaned and not is_narrower(self._stored[name], cleaned[name]):
                    self.add_error(name, message)
        return cleaned


class RotationForm(forms.Form):
    overlap_hours = forms.IntegerField(
        label="Overlap in hours",
        initial=DEFAULT_OVERLAP // HOUR,
        min_value=0,
        max_value=MAX_OVERLAP // HOUR,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text="How long the old token is still accepted, but never beyond its expiry.",
    )
