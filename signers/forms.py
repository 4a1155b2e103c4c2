"""The admin's form for signers: the fields of the chosen type, with secrets that go in and never come out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django import forms
from rest_framework.exceptions import ParseError
from rest_framework.serializers import Field
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from relayer_service.admin.forms import ResourceForm
from relayer_service.api.parsers import loads
from relayer_service.api.serializers import ObjectField
from relayer_service.storage.encryption import DecryptionError
from signers.config_shapes import CONFIGS
from signers.models import Signer
from signers.types import SignerType


class SecretTextarea(UnfoldAdminTextareaWidget):
    """A text area that never shows a value, not even the one just sent."""

    def format_value(self, value: Any) -> None:
        return None


def form_field_name(signer_type: SignerType, name: str) -> str:
    return f"{signer_type.value}__{name}"


def config_fields() -> Iterator[tuple[SignerType, str, Field[Any, Any, Any, Any], bool]]:
    """Yield the config fields of every type: the type, the name, the field, and whether it is secret."""
    for signer_type, config in CONFIGS.items():
        for name, field in config().fields.items():
            yield signer_type, name, field, name not in config.shown


def form_field(name: str, field: Field[Any, Any, Any, Any], secret: bool) -> forms.Field:
    widget: forms.Widget
    if isinstance(field, ObjectField):
        widget = SecretTextarea(attrs={"rows": 6, "placeholder": "{ }", "autocomplete": "off"})
    elif secret:
        widget = UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}, render_value=False)
    else:
        widget = UnfoldAdminTextInputWidget()
    help_text = str(field.help_text or ("A JSON object." if isinstance(field, ObjectField) else ""))
    if not field.required:
        help_text = "Optional."
    return forms.CharField(label=name, required=False, strip=False, widget=widget, help_text=help_text)


class SignerForm(ResourceForm):
    """Checks a config by the same rules as the API, whatever its type."""

    config: dict[str, Any] | None = None

    class Meta:
        model = Signer
        fields = ["identifier", "type"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for signer_type, name, _, secret in config_fields():
            key = form_field_name(signer_type, name)
            # The admin leaves out the fields of other types once the type is fixed.
            if key not in self.fields:
                continue
            if not secret:
                self.fields[key].initial = self.instance.config.get(name, "")
            elif self.instance.pk:
                self.fields[key].help_text = "Kept secret. Leave it empty to keep the value that is set."

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        signer_type = cleaned.get("type") or self.instance.type
        if not signer_type:
            return cleaned
        config = self._config(SignerType(signer_type), cleaned)
        serializer = CONFIGS[SignerType(signer_type)](data=config)
        if serializer.is_valid():
            self.config = serializer.validated_data
        else:
            for name, faults in serializer.errors.items():
                key = form_field_name(SignerType(signer_type), name)
                for fault in faults:
                    self.add_error(key if key in self.fields else None, str(fault))
        return cleaned

    def _config(self, signer_type: SignerType, cleaned: dict[str, Any]) -> dict[str, Any]:
        """Return the config: what was typed in, and for secrets left empty what was set before."""
        config: dict[str, Any] = {}
        before: dict[str, Any] | None = None
        for kind, name, field, secret in config_fields():
            key = form_field_name(kind, name)
            if kind != signer_type:
                continue
            if typed := cleaned.get(key):
                config[name] = self._object(key, typed) if isinstance(field, ObjectField) else typed
            elif secret and self.instance.pk:
                before = self._secrets_before(signer_type, cleaned) if before is None else before
                if name in before:
                    config[name] = before[name]
        return config

    def _secrets_before(self, signer_type: SignerType, cleaned: dict[str, Any]) -> dict[str, Any]:
        """Return the secrets that are set, unless they would now be sent to somewhere else."""
        for name in CONFIGS[signer_type].destination:
            if cleaned.get(form_field_name(signer_type, name)) != self.instance.config.get(name):
                self.add_error(None, f"The {name} has changed: type all secrets again.")
                return {}
        try:
            secrets: dict[str, Any] = self.instance.secrets
        except DecryptionError as error:
            self.add_error(None, f"{error} Type all secrets again.")
            return {}
        return secrets

    def _object(self, key: str, text: str) -> Any:
        try:
            return loads(text.encode())
        except ParseError:
            self.add_error(key, "this is not valid JSON")
            return {}

    def _post_clean(self) -> None:
        """Put the config onto the instance before Django checks the instance's constraints."""
        super()._post_clean()  # type: ignore[misc]  # not in the stubs
        if self.config is not None:
            self.instance.set_config(dict(self.config))


# Declared on the class, as the admin asks the class for its fields.
SignerForm.declared_fields.update(
    {form_field_name(kind, name): form_field(name, field, secret) for kind, name, field, secret in config_fields()}
)
