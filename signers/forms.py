"""The admin's form for signers: the fields of the chosen type, with secrets that go in and never come out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from django import forms
from django.utils.html import format_html, format_html_join
from rest_framework.exceptions import ParseError
from rest_framework.serializers import Field
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from relayer_service.admin.forms import ResourceForm
from relayer_service.api.parsers import loads
from relayer_service.api.serializers import ObjectField
from relayer_service.storage.encryption import DecryptionError
from signers import signing
from signers.backends.base import SignerError
from signers.config_shapes import CONFIGS, shown_config
from signers.models import Signer
from signers.types import SignerType

# The API checks it when it is used, this form when it is saved.
HELP_TEXTS = {f"{SignerType.PLAIN.value}__key": "A secp256k1 key of 32 bytes in hex, with or without 0x."}


class SecretTextarea(UnfoldAdminTextareaWidget):
    """A text area that never shows a value, not even the one just sent."""

    def format_value(self, value: Any) -> None:
        return None


@dataclass(frozen=True)
class ConfigField:
    """A field of the config of one signer type; `key` is its name in the form, which has those of all types."""

    type: SignerType
    name: str
    field: Field[Any, Any, Any, Any]
    is_secret: bool

    @property
    def key(self) -> str:
        return f"{self.type.value}__{self.name}"

    @property
    def is_object(self) -> bool:
        return isinstance(self.field, ObjectField)

    def form_field(self) -> forms.Field:
        widget: forms.Widget
        if self.is_object:
            widget = SecretTextarea(attrs={"rows": 6, "placeholder": "{ }", "autocomplete": "off"})
        elif self.is_secret:
            widget = UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}, render_value=False)
        else:
            widget = UnfoldAdminTextInputWidget()
        help_text = str(self.field.help_text or ("A JSON object." if self.is_object else ""))
        help_text = HELP_TEXTS.get(self.key, help_text) if self.field.required else "Optional."
        return forms.CharField(label=self.name, required=False, strip=False, widget=widget, help_text=help_text)


CONFIG_FIELDS = [
    ConfigField(signer_type, str(name), field, name not in config.shown)
    for signer_type, config in CONFIGS.items()
    for name, field in config().fields.items()
]


class SignerForm(ResourceForm):
    """Checks a config by the same rules as the API, whatever its type."""

    config: dict[str, Any] | None = None

    class Meta:
        model = Signer
        fields = ["identifier", "type"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "type" in self.fields:
            self._show_installed_types()
        # The admin leaves out the fields of other types once the type is fixed.
        for field in (field for field in CONFIG_FIELDS if field.key in self.fields):
            if not field.is_secret:
                self.fields[field.key].initial = shown_config(self.instance.config).get(field.name, "")
            elif self.instance.pk:
                self.fields[field.key].help_text = "Kept secret. Leave it empty to keep the value that is set."

    def _show_installed_types(self) -> None:
        """Label the choice of types with which of them work in this installation, and what the others need."""
        missing = {each: signing.missing_library(each) for each in SignerType}
        # As untyped as Django's choices, which may be many things.
        field: Any = self.fields["type"]
        field.choices = [
            (value, f"{label}, not installed" if value and missing[SignerType(value)] else label)
            for value, label in field.choices
        ]
        works = ", ".join(each.label for each, error in missing.items() if error is None)
        others = ((each.label, error) for each, error in missing.items() if error is not None)
        lines = format_html_join("", '<span class="block">{}: {}</span>', others)
        field.help_text = format_html("{} Installed: {}.{}", field.help_text, works, lines)

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        signer_type = cleaned.get("type") or self.instance.type
        if not signer_type:
            return cleaned
        fields = [field for field in CONFIG_FIELDS if field.type == signer_type]
        serializer = CONFIGS[SignerType(signer_type)](data=self._config(fields, cleaned))
        keys = {field.name: field.key for field in fields if field.key in self.fields}
        if serializer.is_valid():
            self.config = serializer.validated_data
            self._check_usable(SignerType(signer_type), keys)
        else:
            for name, faults in serializer.errors.items():
                for fault in faults:
                    self.add_error(keys.get(name), str(fault))
        return cleaned

    def _check_usable(self, signer_type: SignerType, keys: dict[str, str]) -> None:
        """Refuse a config that can never work, at the field that the error names first."""
        # A fault that was found before explains what this would find.
        if self.errors or self.config is None:
            return
        try:
            signing.check(signer_type, dict(self.config))
        except SignerError as error:
            named = (word for word in re.findall(r"\w+", str(error)) if word in keys)
            self.add_error(keys.get(next(named, "")), str(error))

    def _config(self, fields: list[ConfigField], cleaned: dict[str, Any]) -> dict[str, Any]:
        """Return the config: what was typed in, and for secrets left empty what was set before."""
        typed = {field.name: cleaned[field.key] for field in fields if cleaned.get(field.key)}
        left_empty = [field.name for field in fields if field.is_secret and field.name not in typed]
        config = {
            field.name: self._object(field.key, typed[field.name]) if field.is_object else typed[field.name]
            for field in fields
            if field.name in typed
        }
        if left_empty and self.instance.pk:
            before = self._secrets_before(typed)
            config |= {name: before[name] for name in left_empty if name in before}
        return config

    def _secrets_before(self, typed: dict[str, Any]) -> dict[str, Any]:
        """Return the secrets that are set, unless they would now be sent to somewhere else."""
        for name in CONFIGS[SignerType(self.instance.type)].destination:
            if typed.get(name) != self.instance.config.get(name):
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
SignerForm.declared_fields.update({field.key: field.form_field() for field in CONFIG_FIELDS})
