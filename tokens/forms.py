"""The admin's form for access tokens."""

from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminTextareaWidget

from relayer_service.admin.forms import ResourceForm
from tokens.models import AccessToken


class NetworkListField(forms.CharField):
    """A list of networks, edited as one a line."""

    widget = UnfoldAdminTextareaWidget(attrs={"rows": 3, "placeholder": "10.0.0.0/8"})

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        return (value or "").split()


class AccessTokenForm(ResourceForm):
    allowed_networks = NetworkListField(
        required=False, help_text=AccessToken._meta.get_field("allowed_networks").help_text + " One a line."
    )

    class Meta:
        model = AccessToken
        fields = ["name", "user", "enabled", "expires_at", "allowed_networks"]
        help_texts = {"expires_at": "In UTC. Empty: it does not expire."}
