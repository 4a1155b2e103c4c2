"""The admin's form for signers: the fields of the chosen type, with write-only secrets."""

import hashlib
import re
from dataclasses import dataclass
from typing import Any

import orjson
from django import forms
from django.db.models import QuerySet
from django.template.loader import render_to_string
from django.utils.html import format_html, format_html_join
from rest_framework.exceptions import ParseError
from rest_framework.serializers import Field
from unfold.widgets import (
    UnfoldAdminPasswordWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from relayer_service.api.parsers import loads
from relayer_service.api.serializers import ObjectField
from relayer_service.background.shares import waiting_for_others
from relayer_service.console.confirmation import Table
from relayer_service.console.forms import ResourceForm, declare_fields
from relayer_service.console.references import link
from relayer_service.storage.encryption import DecryptionError
from signers import signing
from signers.backends.base import SignerError
from signers.config_shapes import CONFIGS, SignerType, shown_config
from signers.followers import MAX_NAMED, Follower, counted, get_follower
from signers.key_sources import KeySource, new_key
from signers.models import Signer
from signers.writes import SignerWrite, changed_destination

# The API checks it when it is used, this form when it is saved.
PLAIN_KEY, KEY_SOURCE = f"{SignerType.PLAIN.value}__key", "key_source"
HELP_TEXTS = {PLAIN_KEY: "A secp256k1 key of 32 bytes in hex, with or without 0x."}
# The field that confirms that rows move to the signer's new address.
CONFIRMED = "confirmed_address"
UNKNOWN_ADDRESS = "unknown"
FUNDS_STAY = "Coins stay at the old address, which only the old key can sign for."


class SecretTextarea(UnfoldAdminTextareaWidget):
    """A text area that never renders a value, not even the one just sent."""

    def format_value(self, value: Any) -> None:
        return None


class AddressCheckbox(UnfoldBooleanWidget):
    """A check box, never rendered as checked, whose value is the address that it confirms."""

    def __init__(self) -> None:
        super().__init__(check_test=lambda value: False)

    def format_value(self, value: Any) -> None:
        return None

    def value_from_datadict(self, data: Any, files: Any, name: str) -> str:
        return str(data.get(name, ""))


@dataclass(frozen=True)
class ConfigField:
    """A field of the config of one signer type; `key` is its name in the form, which has the fields of all types."""

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
    write_class = SignerWrite
    write: SignerWrite
    # Addresses by config, shared with another form that validates the same request again.
    answers: dict[bytes, tuple[str, str]] | None = None
    # Whether the user may view the rows that use the signer.
    names_rows = False

    key_source = forms.ChoiceField(
        label="Key source",
        required=False,
        initial=KeySource.ENTER,
        choices=lambda: [(source.value, source.label) for source in KeySource.offered()],
        widget=UnfoldAdminSelectWidget,
        help_text="A generated key is stored encrypted and never shown: it cannot be exported.",
    )
    confirmed_address = forms.CharField(label="Confirm the new address", required=False, widget=AddressCheckbox)

    class Meta:
        model = Signer
        fields = ["identifier", "type"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.answers = {} if self.answers is None else self.answers
        self.moves_rows = False
        if "type" in self.fields:
            self._show_installed_types()
        # The change page has only the fields of the signer's type.
        for field in (field for field in CONFIG_FIELDS if field.key in self.fields):
            if not field.is_secret:
                self.fields[field.key].initial = shown_config(self.instance.config).get(field.name, "")
            elif self.instance.pk:
                self.fields[field.key].help_text = "Leave empty to keep the current value."

    def _show_installed_types(self) -> None:
        """Mark the types whose library is not installed, with the command that installs it."""
        missing = {each: signing.missing_library(each) for each in SignerType}
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
            config = dict(serializer.validated_data)
            self._check_usable(SignerType(signer_type), config, keys)
            self.write.set({"type": signer_type, "config": config})
        else:
            for name, faults in serializer.errors.items():
                for fault in faults:
                    self.add_error(keys.get(name), str(fault))
        return cleaned

    def _check_usable(self, signer_type: SignerType, config: dict[str, Any], keys: dict[str, str]) -> None:
        """Add the error of a config that can never work, to the field that it names first."""
        # An earlier error explains what this would find.
        if self.errors:
            return
        try:
            signing.check(signer_type, config)
        except SignerError as error:
            named = (word for word in re.findall(r"\w+", str(error)) if word in keys)
            self.add_error(keys.get(next(named, "")), str(error))

    def _config(self, fields: list[ConfigField], cleaned: dict[str, Any]) -> dict[str, Any]:
        entered = {field.name: cleaned[field.key] for field in fields if cleaned.get(field.key)}
        source = cleaned.get(KEY_SOURCE) or KeySource.ENTER
        if fields[0].type == SignerType.PLAIN and source != KeySource.ENTER:
            if "key" in entered:
                self.add_error(PLAIN_KEY, "Enter a key or choose another source, not both.")
            return {"key": new_key(source)}
        left_empty = [field.name for field in fields if field.is_secret and field.name not in entered]
        config = {
            field.name: self._object(field.key, entered[field.name]) if field.is_object else entered[field.name]
            for field in fields
            if field.name in entered
        }
        if left_empty and self.instance.pk:
            current = self._current_secrets(entered)
            config |= {name: current[name] for name in left_empty if name in current}
        return config

    def _current_secrets(self, entered: dict[str, Any]) -> dict[str, Any]:
        """Return the current secrets, unless they would be sent to another destination."""
        if name := changed_destination(self.instance, entered):
            self.add_error(None, f"The {name} has changed. Enter all secrets again.")
            return {}
        try:
            return dict(self.instance.secrets)
        except DecryptionError as error:
            self.add_error(None, f"{error} Enter all secrets again.")
            return {}

    def _object(self, key: str, text: str) -> Any:
        try:
            return loads(text.encode())
        except ParseError:
            self.add_error(key, "Enter a valid JSON object.")
            return {}

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]  # not in the stubs
        if self.instance.pk and not self.errors:
            self._check_follower(bool(self.write.fields))

    def _check_follower(self, is_replaced: bool) -> None:
        """Require a confirmation before rows that use the signer move to another address."""
        follower, confirmed = get_follower(), self.cleaned_data.get(CONFIRMED, "")
        address, warning = "", ""
        if is_used := follower.rows(self.instance).exists():
            address, warning = self._read_address() if is_replaced else (signing.known_identity(self.instance), "")
        elsewhere = follower.elsewhere(self.instance, address)
        self.moves_rows = is_used and bool(address or is_replaced) and elsewhere.exists()
        if address or self.moves_rows:
            self.write.followed_to = address
        if self.moves_rows and (reason := follower.refusal(self.instance, address)):
            self.add_error(None, reason)
        elif self.moves_rows and confirmed != (address or UNKNOWN_ADDRESS):
            self._ask_to_confirm(follower, elsewhere, address, warning)
        elif confirmed and not is_replaced and not self.moves_rows:
            self.add_error(CONFIRMED, "Nothing would change. Enter the new secrets again.")

    def _read_address(self) -> tuple[str, str]:
        """Return the address of the new config and "", or "" and why it cannot be read."""
        assert self.answers is not None
        config = orjson.dumps(self.instance.full_config(), option=orjson.OPT_SORT_KEYS)
        key = hashlib.sha256(config).digest()
        if key not in self.answers:
            try:
                with waiting_for_others():
                    self.answers[key] = signing.read_identity(self.instance), ""
            except SignerError as error:
                self.answers[key] = "", str(error)
        return self.answers[key]

    def _ask_to_confirm(self, follower: Follower, rows: QuerySet[Any], address: str, warning: str) -> None:
        count = rows.count()
        users = counted(rows.model, count)
        if address:
            text = f"This key has another address, {address}. Saving it moves {users}. {FUNDS_STAY}"
        else:
            text = f"The address of this key cannot be read: {warning} Saving it leaves {users} without an address."
        if any(self.cleaned_data.get(field.key) for field in CONFIG_FIELDS if field.is_secret):
            text += " Enter the secrets again, as they are not kept, and confirm."
        if CONFIRMED in self.fields:
            self.fields[CONFIRMED].widget.attrs["value"] = address or UNKNOWN_ADDRESS
            if self.names_rows:
                # Validation has bound the field, which keeps the help text that it had.
                self[CONFIRMED].help_text = moves(follower, rows, count)
        self.add_error(CONFIRMED if CONFIRMED in self.fields else None, text)


def moves(follower: Follower, rows: QuerySet[Any], count: int) -> str:
    """Return a table of the first rows that move, with the address that each leaves and the balance there."""
    amount = '<span class="amount" title="{1}">{0}</span>'
    cells = [[link(row), row.address, format_html(amount, *follower.balance(row))] for row in rows[:MAX_NAMED]]
    headers = [str(rows.model._meta.verbose_name).capitalize(), "Old address", "Balance there"]
    return render_to_string("admin/table.html", {"table": Table(headers, cells, max(0, count - MAX_NAMED))})
