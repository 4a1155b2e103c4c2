"""The admin's form for signers: the fields of the chosen type, with secrets that go in and never come out."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

import orjson
from django import forms
from django.db.models import QuerySet
from django.utils.html import format_html, format_html_join
from rest_framework.exceptions import ParseError
from rest_framework.serializers import Field
from unfold.widgets import (
    UnfoldAdminPasswordWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from relayer_service.admin.forms import ResourceForm, declare_fields
from relayer_service.api.parsers import loads
from relayer_service.api.serializers import ObjectField
from relayer_service.background.shares import waiting_for_others
from relayer_service.storage.encryption import DecryptionError
from signers import signing
from signers.backends.base import SignerError
from signers.config_shapes import CONFIGS, shown_config
from signers.followers import MAX_NAMED, counted, first_names, followers
from signers.models import Signer
from signers.types import SignerType
from signers.writes import UNKNOWN_ADDRESS, SignerWrite, changed_destination

# The API checks it when it is used, this form when it is saved.
HELP_TEXTS = {f"{SignerType.PLAIN.value}__key": "A secp256k1 key of 32 bytes in hex, with or without 0x."}
# The field with which staff accept that rows move to the signer's new address.
CONFIRMED = "confirmed_address"


class SecretTextarea(UnfoldAdminTextareaWidget):
    """A text area that never shows a value, not even the one just sent."""

    def format_value(self, value: Any) -> None:
        return None


class AddressCheckbox(UnfoldBooleanWidget):
    """A check box that sends an address: that one is confirmed, and no other. It is never shown ticked."""

    def __init__(self) -> None:
        super().__init__(check_test=lambda value: False)

    def format_value(self, value: Any) -> None:
        return None

    def value_from_datadict(self, data: Any, files: Any, name: str) -> str:
        sent: str = data.get(name, "")
        return sent


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


@declare_fields({field.key: field.form_field() for field in CONFIG_FIELDS})
class SignerForm(ResourceForm):
    """Checks a config by the same rules as the API, whatever its type."""

    write_class = SignerWrite
    write: SignerWrite
    config: dict[str, Any] | None = None
    # Addresses by config, shared with another form that checks the same request again.
    answers: dict[bytes, tuple[str, str]] | None = None
    # Whether the user may see what uses the signer.
    names_rows = False

    confirmed_address = forms.CharField(label="Confirm the new address", required=False, widget=AddressCheckbox)

    class Meta:
        model = Signer
        fields = ["identifier", "type"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.answers = {} if self.answers is None else self.answers
        # Whether rows of other apps move to the signer's new address.
        self.moves_rows = False
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
            self.config = dict(serializer.validated_data)
            self._check_usable(SignerType(signer_type), keys)
            self.write.set({"type": signer_type, "config": self.config})
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
            signing.check(signer_type, self.config)
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
        if name := changed_destination(self.instance, typed):
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
        super()._post_clean()  # type: ignore[misc]  # not in the stubs
        if self.instance.pk and not self.errors:
            self._check_followers(bool(self.write.fields))

    def _check_followers(self, is_replaced: bool) -> None:
        """Refuse to move what uses the signer to another address, unless that address was confirmed."""
        found = [follower for follower in followers() if follower.rows(self.instance).exists()]
        confirmed, address, warning = self.cleaned_data.get(CONFIRMED, ""), "", ""
        if found and is_replaced:
            address, warning = self._read_address()
        elif found:
            address = signing.known_identity(self.instance)
        elsewhere = [follower.elsewhere(self.instance, address) for follower in found]
        self.moves_rows = bool(address or is_replaced) and any(rows.exists() for rows in elsewhere)
        if address or self.moves_rows:
            self.write.followed_to = address
        if self.moves_rows and confirmed != (address or UNKNOWN_ADDRESS):
            self._ask_to_confirm(elsewhere, address, warning)
        elif confirmed and not is_replaced and not self.moves_rows:
            self.add_error(CONFIRMED, "Nothing would change: type the new secrets again.")

    def _read_address(self) -> tuple[str, str]:
        """Return the address of the new config and "", or "" and why it cannot be read."""
        assert self.answers is not None
        config = orjson.dumps(self.instance.full_config(), option=orjson.OPT_SORT_KEYS)
        question = hashlib.sha256(config).digest()
        if question not in self.answers:
            try:
                with waiting_for_others():
                    self.answers[question] = signing.read_identity(self.instance), ""
            except SignerError as error:
                self.answers[question] = "", str(error)
        return self.answers[question]

    def _ask_to_confirm(self, elsewhere: list[QuerySet[Any]], address: str, warning: str) -> None:
        """Add the error that names the rows that would move, at the check box that confirms it."""
        users = "; ".join(named(rows, by_name=self.names_rows) for rows in elsewhere)
        if address:
            text = f"This key has another address, {address}. Saving it moves {users}."
        else:
            text = f"The address of this key cannot be read: {warning} Saving it leaves {users} without one."
        if any(self.cleaned_data.get(field.key) for field in CONFIG_FIELDS if field.is_secret):
            text += " Type the secrets again, as they are not kept, and confirm."
        if CONFIRMED not in self.fields:
            self.add_error(None, text)
            return
        self.fields[CONFIRMED].widget.attrs["value"] = address or UNKNOWN_ADDRESS
        self.add_error(CONFIRMED, text)


def named(rows: QuerySet[Any], *, by_name: bool) -> str:
    """Return how many rows there are, and the first of them with their addresses where they may be viewed."""
    count = rows.count()
    text = counted(rows.model, count)
    if not by_name:
        return text
    return f"{text}: {first_names([f'{row} ({row.address})' for row in rows[:MAX_NAMED]], count)}"
