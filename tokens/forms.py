"""The admin's form for access tokens."""

from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminTextareaWidget

from relayer_service.admin.forms import ResourceForm
from tokens.models import AccessToken
from tokens.scopes import Scope


class LinesField(forms.CharField):
    """A list of texts, edited as one a line."""

    widget = UnfoldAdminTextareaWidget(attrs={"rows": 3})

    def __init__(self, *, placeholder: str, **kwargs: Any) -> None:
        super().__init__(required=False, **kwargs)
        self.widget.attrs["placeholder"] = placeholder
        self.help_text += " One a line."

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        # An id may have spaces in it.
        return [line for line in map(str.strip, (value or "").splitlines()) if line]


def help_text(field: str) -> str:
    column: Any = AccessToken._meta.get_field(field)
    return str(column.help_text)


class AccessTokenForm(ResourceForm):
    allowed_networks = LinesField(placeholder="10.0.0.0/8", help_text=help_text("allowed_networks"))
    scopes = forms.MultipleChoiceField(
        choices=[(scope.value, f"{scope.value}: {scope.label}") for scope in Scope],
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text=help_text("scopes"),
    )
    allowed_relayers = LinesField(placeholder="payments-1", help_text=help_text("allowed_relayers"))

    class Meta:
        model = AccessToken
        fields = ["name", "user", "enabled", "expires_at", "allowed_networks", "scopes", "allowed_relayers"]
        help_texts = {"expires_at": "In UTC. Empty: it does not expire."}
