"""The admin's forms for fee tokens and their price sources."""

import json
from typing import Any

from django import forms
from django.utils import timezone
from unfold.forms import PaginationInlineFormSet
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldBooleanWidget

from chain.networks import networks
from relayer_service.console.dates import ago
from relayer_service.console.forms import ResourceForm
from rpc.models import FeeToken, PriceSource
from rpc.writes import FeeTokenWrite

STILL_CORRECT = "still_correct"
# The fields in the admin of each kind of source.
SHOWN = {kind.value: PriceSource.fields_of(kind) for kind in PriceSource.Kind}
SHOWN[PriceSource.Kind.FIXED.value] = [*SHOWN[PriceSource.Kind.FIXED.value], STILL_CORRECT]
SOURCE_FIELDS = list(dict.fromkeys(name for names in SHOWN.values() for name in names))
SOURCE_COLUMNS = [name for name in SOURCE_FIELDS if name != STILL_CORRECT]
COLUMNS = {field.name: field for field in PriceSource._meta.fields}


class FeeTokenForm(ResourceForm):
    write_class = FeeTokenWrite
    write: FeeTokenWrite

    network = forms.ChoiceField(widget=UnfoldAdminSelectWidget)

    class Meta:
        model = FeeToken
        fields = FeeToken.CONFIGURED

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Includes the token's network if it has been removed from NETWORKS_FILE.
        names = dict.fromkeys([*networks(), self.instance.network or ""])
        self.fields["network"].choices = [(name, name) for name in names if name]  # type: ignore[attr-defined]

    def values(self, cleaned: dict[str, Any]) -> dict[str, Any]:
        return {name: cleaned[name] for name in self.Meta.fields if name in cleaned}


class PriceSourceForm(forms.ModelForm):  # type: ignore[type-arg]  # Django cannot subscript it
    """Accepts the fields of the chosen kind and clears the others."""

    still_correct = forms.BooleanField(
        label="Confirm rate",
        required=False,
        widget=UnfoldBooleanWidget,
        help_text="Restarts the age limit of an unchanged rate.",
    )

    class Meta:
        model = PriceSource
        fields = ["kind", *SOURCE_COLUMNS]
        # The page's script shows the fields of the chosen kind.
        widgets = {"kind": UnfoldAdminSelectWidget({"data-kind-fields": json.dumps(SHOWN)})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.rate_set_at:
            field = self.fields[STILL_CORRECT]
            field.help_text = f"The rate was set {ago(self.instance.rate_set_at)}. {field.help_text}"

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        kind = cleaned.get("kind")
        if not kind:
            return cleaned
        for name in set(SOURCE_COLUMNS) - set(SHOWN[kind]):
            # The field is hidden, and so would be its error.
            self.errors.pop(name, None)
            cleaned[name] = COLUMNS[name].get_default()
        return cleaned

    def _post_clean(self) -> None:
        """Record the time when a fixed rate is changed or confirmed."""
        super()._post_clean()  # type: ignore[misc]  # not in the stubs
        if self.instance.kind != PriceSource.Kind.FIXED:
            self.instance.rate_set_at = None
        elif {"kind", "rate_text", STILL_CORRECT} & set(self.changed_data) or self.instance.rate_set_at is None:
            self.instance.rate_set_at = timezone.now()


class PriceSources(PaginationInlineFormSet):
    default_error_messages = {"too_few_forms": "A token needs at least one price source."}
