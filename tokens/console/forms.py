from collections.abc import Callable
from datetime import timedelta
from ipaddress import ip_network
from typing import Any, cast

from django import forms
from django.apps import apps
from django.contrib.admin.views.autocomplete import AutocompleteJsonView
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.urls import reverse_lazy
from django.utils.module_loading import import_string
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminMultipleAutocompleteModelChoiceFieldWidget,
    UnfoldAdminRadioSelectWidget,
    UnfoldAdminTextareaWidget,
)

from relayer_service import extensions
from relayer_service.amounts import COINS
from relayer_service.console.confirmation import ReasonForm
from relayer_service.console.dates import IN_TIME_ZONE
from relayer_service.console.forms import ResourceForm
from relayer_service.tags import PREFIX, tags_in
from spending.console.rule_fields import SpendingRulesField
from spending.writes import stored_rules
from tokens.models import AccessToken
from tokens.scopes import WITHOUT_SCOPES, Scope
from tokens.writes import DEFAULT_OVERLAP, MAX_OVERLAP, ONLY_THIS, WITH_ALL, AccessTokenWrite

HOUR = timedelta(hours=1)
NO_SCOPES = "none"
UNKNOWN = "no such relayer"
TAGGED, NOT_TAGGED = "relayers with this tag", "no relayer has this tag"


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


class ScopesField(forms.MultipleChoiceField):
    """The scopes of a token. To have none is a choice of its own, as such a token is not without rights."""

    def prepare_value(self, value: Any) -> Any:
        return [NO_SCOPES] if value == [] else value

    def clean(self, value: Any) -> list[str]:
        chosen: list[str] = super().clean(value)
        if NO_SCOPES in chosen and len(chosen) > 1:
            raise ValidationError("Choose either no scopes or some.")
        return [] if chosen == [NO_SCOPES] else chosen


def relayers() -> Any:
    # By its label: this app imports none that uses it.
    return apps.get_model("relayers.Relayer")


def used_tags() -> list[str]:
    names: list[str] = import_string("relayers.console.filters.used_tags")()
    return names


def shown(relayer: Any) -> str:
    return f"{relayer.identifier} ({relayer.name})"


class RelayerChoices(AutocompleteJsonView):
    """The tags and relayers that a search finds, and what was typed, as it may become the ID of a relayer."""

    def process_request(self, request: HttpRequest) -> tuple[str, Any, Any, str]:
        # The field has the limits of its choices, of which there are none.
        field, site = relayers()._meta.get_field("funding_relayer"), cast("Any", self.admin_site)
        return request.GET.get("term", ""), site._registry[relayers()], field, "identifier"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context, typed = super().get_context_data(**kwargs), self.term.strip()
        if context["page_obj"].number == 1:
            found = [PREFIX + name for name in used_tags() if (PREFIX + name).find(typed) in {0, len(PREFIX)}]
            tags = [relayers()(identifier=each, name=TAGGED) for each in found]
            context["object_list"] = [*tags, *context["object_list"]]
            typed = "" if typed in found else typed
        if typed and not context["page_obj"].has_next() and not relayers().objects.filter(identifier=typed).exists():
            name = NOT_TAGGED if typed.startswith(PREFIX) else UNKNOWN
            context["object_list"] = [*context["object_list"], relayers()(identifier=typed, name=name)]
        return context

    def serialize_result(self, obj: Any, to_field_name: str) -> dict[str, str]:
        return {"id": obj.identifier, "text": shown(obj)}


class RelayersWidget(UnfoldAdminMultipleAutocompleteModelChoiceFieldWidget):
    def __init__(self) -> None:
        super().__init__({"data-ajax--url": reverse_lazy("admin:tokens_accesstoken_relayers")})
        self.attrs["data-placeholder"] = "All relayers"

    def optgroups(self, name: str, value: Any, attrs: Any = None) -> Any:
        """Show the chosen IDs, also those that no relayer has."""
        named = relayers().objects.filter(identifier__in=value).only("identifier", "name")
        names = {each.identifier: shown(each) for each in named if not each.identifier.startswith(PREFIX)}
        used = used_tags() if tags_in(value) else []
        for name in tags_in(value):
            names[PREFIX + name] = f"{PREFIX}{name} ({TAGGED if name in used else NOT_TAGGED})"
        self.choices = [(each, names.get(each, f"{each} ({UNKNOWN})")) for each in value]
        return super().optgroups(name, value, attrs)


class RelayersField(forms.MultipleChoiceField):
    """IDs of relayers, which need not exist yet."""

    widget = RelayersWidget

    def to_python(self, value: Any) -> list[str]:
        return list(dict.fromkeys(text for each in super().to_python(value) if (text := each.strip(" \t\r"))))

    def valid_value(self, value: str) -> bool:
        return True


def successors_field(label: str) -> forms.TypedChoiceField:
    """Return the field for whether revoking a token revokes its successors; without an answer, it does."""
    return forms.TypedChoiceField(
        label=label,
        choices=[("disable", f"are revoked too: {WITH_ALL}"), ("keep", f"are still accepted: {ONLY_THIS}")],
        coerce=lambda value: value != "keep",
        empty_value=True,  # type: ignore[arg-type]  # the stubs allow texts only
        initial="disable",
        required=False,
        widget=UnfoldAdminRadioSelectWidget,
    )


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
    write: AccessTokenWrite
    # Set by the admin for superusers.
    can_widen = False

    allowed_networks = LinesField(
        placeholder="10.0.0.0/8",
        help_text="Addresses or CIDR networks it is accepted from. If empty, it is accepted from any address.",
    )
    scopes = ScopesField(
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        error_messages={"required": "Choose what it can do."},
        help_text="A token with scopes can do what they say, and nothing else.",
    )
    allowed_relayers = RelayersField(
        required=False,
        help_text="The relayers that it can send and sign with. With the scope manage it can change their names "
        "and policies and pause them, and nothing else. If empty, all. An ID that no relayer has yet can be typed, "
        "and tag:NAME for all relayers that have this tag at the time of a request.",
    )

    spending_rules = SpendingRulesField(
        required=False,
        label="Spending rules",
        help_text="They apply in addition to the rules of the relayer, on all networks: a coin is 10^18 wei, whatever "
        "its symbol.",
    )
    with_successors = successors_field("When it is no longer enabled, its successors")

    class Meta:
        model = AccessToken
        fields = ["name", "user", "enabled", "expires_at", "allowed_networks", "scopes", "allowed_relayers"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "expires_at" in self.fields:
            self.fields["expires_at"].help_text = f"{IN_TIME_ZONE} If empty, it does not expire."
        if "scopes" in self.fields:
            labels = dict(Scope.choices)
            # Including the token's own, even if their extension is disabled.
            offered = dict.fromkeys([*extensions.available_scopes(), *self.instance.scopes])
            none = (NO_SCOPES, f"no scopes: {WITHOUT_SCOPES}, and nothing else")
            field: Any = self.fields["scopes"]
            field.choices = [none, *((scope, f"{scope}: {labels.get(scope, 'unknown')}") for scope in offered)]
            if not self.instance.pk and not self.initial.get("scopes"):
                # Nothing is chosen for a new token.
                self.initial["scopes"] = None

        if "spending_rules" in self.fields:
            rules: Any = self.fields["spending_rules"]
            rules.edit(self.data if self.is_bound else None, stored_rules(self.instance), COINS)

    def values(self, cleaned: dict[str, Any]) -> dict[str, Any]:
        is_changed = "spending_rules" in cleaned and "spending_rules" in self.changed_data
        return {"spending_rules": cleaned["spending_rules"]} if is_changed else {}

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        self.write.with_successors = cleaned.get("with_successors", True)
        if self.instance.pk and not self.can_widen:
            for name, (is_narrower, message) in NARROWED.items():
                if name in cleaned and not is_narrower(self._stored[name], cleaned[name]):
                    self.add_error(name, message)
        return cleaned


class RevokeForm(ReasonForm):
    """What to do with successors, and why."""

    with_successors = successors_field("Their successors")
    field_order = ("with_successors", "reason")

    def __init__(self, data: Any = None, *, successors: str) -> None:
        super().__init__(data, required=False)
        self.fields["with_successors"].label = successors


class RotationForm(forms.Form):
    overlap_hours = forms.IntegerField(
        label="Overlap in hours",
        initial=DEFAULT_OVERLAP // HOUR,
        min_value=0,
        max_value=MAX_OVERLAP // HOUR,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text="How long the old token is still accepted, but never beyond its expiry.",
    )
