"""The admin's forms for fee tokens, their price sources and estimates."""

import json
from typing import Any

from django import forms
from django.utils import timezone
from unfold.forms import PaginationInlineFormSet
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldBooleanWidget

from chain.fee_history import SPEEDS
from chain.networks import networks
from relayer_service.admin.dates import ago
from relayer_service.admin.forms import ResourceForm
from relayers.models import Relayer
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
        # The token's network too, if it has been removed from NETWORKS_FILE.
        names = dict.fromkeys([*networks(), self.instance.network or ""])
        self.fields["network"].choices = [(name, name) for name in names if name]  # type: ignore[attr-defined]

    def values(self, cleaned: dict[str, Any]) -> dict[str, Any]:
        return {name: cleaned[name] for name in self.Meta.fields if name in cleaned}


class PriceSourceForm(forms.ModelForm):  # type: ignore[type-arg]  # Django cannot subscript it
    """Accepts the fields of the chosen kind and clears the others."""

    still_correct = forms.BooleanField(
        label="Still correct",
        required=False,
        widget=UnfoldBooleanWidget,
        help_text="Confirms an unchanged rate: its age restarts now.",
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


class EstimateForm(forms.Form):
    fee_token = forms.ChoiceField(label="Fee token", required=False, widget=UnfoldAdminSelectWidget)
    speed = forms.ChoiceField(
        required=False,
        choices=[("", "By the fullness of recent blocks"), *((name, name) for name in SPEEDS)],
        widget=UnfoldAdminSelectWidget,
    )
    transaction = forms.CharField(
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2, "spellcheck": "false", "placeholder": "0x…"}),
        help_text="Encoded, as 0x and hexadecimal digits: legacy or type 1 to 4, signed or unsigned.",
    )

    def __init__(self, relayer: Relayer, data: Any = None) -> None:
        super().__init__(data, prefix="estimate")
        known = networks().get(relayer.network)
        coin = (known.symbol, f"{known.symbol}, the native coin") if known else ("native", "The native coin")
        tokens = FeeToken.objects.filter(network=relayer.network, enabled=True).values_list("address", "symbol")
        choices = [("", "All tokens of the network"), *tokens.order_by("symbol"), coin]
        self.fields["fee_token"].choices = choices  # type: ignore[attr-defined]
