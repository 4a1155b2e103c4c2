"""The admin's form for signers: the fields of the chosen type, with write-only secrets."""

import hashlib
import re
from collections.abc import Callable
from typing import Any

import orjson
from django import forms
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.text import capfirst
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldBooleanWidget

from relayer_service.background.shares import waiting_for_others
from relayer_service.console.confirmation import Table
from relayer_service.console.forms import ResourceForm, declare_fields
from relayer_service.console.references import link
from relayer_service.storage.encryption import DecryptionError
from signers import signing
from signers.backends.base import SignerError
from signers.config_shapes import CONFIGS, SignerType, shown_config
from signers.console import uploads
from signers.console.fields import (
    ACCOUNT,
    ACCOUNT_FILE,
    CONFIG_FIELDS,
    FIELDS,
    GOOGLE_KEY,
    KEY_SOURCE,
    KEYSTORE,
    PASSPHRASE,
    PLAIN_KEY,
    ConfigField,
    install_hint,
    names_of,
)
from signers.followers import MAX_NAMED, Follower, counted, get_follower
from signers.key_sources import KeySource, new_key
from signers.models import Signer
from signers.writes import SignerWrite, changed_destination

# The field that confirms that rows move to the signer's new address.
CONFIRMED = "confirmed_address"
NO_ACCOUNT = "Upload the service account's file, or paste its content."
# What it confirms instead of an address: one that cannot be read, or that of the key that will be generated.
UNKNOWN_ADDRESS, GENERATED = "unknown", "generated"
FUNDS_STAY = "Coins stay at the old address, which only the old key can sign for."


class AddressCheckbox(UnfoldBooleanWidget):
    """A check box, never rendered as checked, whose value is the address that it confirms."""

    def __init__(self) -> None:
        super().__init__(check_test=lambda value: False)

    def format_value(self, value: Any) -> None:
        return None

    def value_from_datadict(self, data: Any, files: Any, name: str) -> str:
        return str(data.get(name, ""))


@declare_fields(FIELDS)
class SignerForm(ResourceForm):
    write_class = SignerWrite
    write: SignerWrite
    # New keys by source and addresses by config, each with "" or else why there is none, shared with another form that
    # validates the same request again.
    answers: dict[bytes, tuple[str, str]] | None = None
    # Whether the user may view the rows that use the signer, and the link to send what the account of one holds.
    names_rows = False
    sweep_link: Callable[[Any], str] = staticmethod(lambda row: "")

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
            self._mark_missing_libraries()
        # The change page has only the fields of the signer's type.
        for field in (field for field in CONFIG_FIELDS if field.key in self.fields):
            if not field.is_secret:
                self.fields[field.key].initial = shown_config(self.instance.config).get(field.name, "")
            elif self.instance.pk:
                kept = "Leave empty to keep the current value. {}"
                self.fields[field.key].help_text = format_html(kept, self.fields[field.key].help_text)
                self.fields[field.key].required = False
        if self.instance.pk and ACCOUNT_FILE in self.fields:
            self.fields[ACCOUNT_FILE].required = False

    def _mark_missing_libraries(self) -> None:
        """Mark the types whose library is not installed; the first field of one has the command that installs it."""
        field: Any = self.fields["type"]
        hints = {each.value: install_hint(each) for each in SignerType}
        field.choices = [
            (value, f"{label}, not installed" if hints.get(value) else label) for value, label in field.choices
        ]
        for each, hint in hints.items():
            first = self.fields[names_of(each)[0]]
            first.help_text = format_html("{}{}", first.help_text, hint)

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        signer_type = cleaned.get("type") or self.instance.type
        if not signer_type:
            return cleaned
        fields = [field for field in CONFIG_FIELDS if field.type == signer_type]
        keys = {field.name: field.key for field in fields if field.key in self.fields}
        if ACCOUNT in keys.values() and (cleaned.get(ACCOUNT_FILE) or not cleaned.get(ACCOUNT)):
            keys["service_account"] = ACCOUNT_FILE
        serializer = CONFIGS[SignerType(signer_type)](data=self._config(fields, cleaned))
        if serializer.is_valid():
            config = dict(serializer.validated_data)
            self._check_usable(SignerType(signer_type), config, keys)
            self.write.set({"type": signer_type, "config": config})
        else:
            for name, faults in serializer.errors.items():
                # What is wrong with what was entered explains it.
                if keys.get(name) not in self.errors and not (name == "key" and KEYSTORE in self.errors):
                    is_missing = name == "service_account" and not cleaned.get(ACCOUNT_FILE)
                    self.add_error(keys.get(name), NO_ACCOUNT if is_missing else [*map(as_sentence, faults)])
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
        source = cleaned.get(KEY_SOURCE) or KeySource.ENTER
        if fields[0].type == SignerType.PLAIN and source != KeySource.ENTER:
            if cleaned.get(PLAIN_KEY):
                self.add_error(PLAIN_KEY, "Enter a key or choose another source, not both.")
            return {"key": self._new_key(source, cleaned)}
        if cleaned.get(KEYSTORE):
            self.add_error(KEY_SOURCE, "Choose to upload a keystore file, or remove the file.")
        config = {field.name: self._value(field.key, cleaned) for field in fields}
        config = {name: value for name, value in config.items() if value}
        left_empty = [field.name for field in fields if field.is_secret and field.name not in config]
        if left_empty and self.instance.pk:
            current = self._current_secrets(config)
            config |= {name: current[name] for name in left_empty if name in current}
        return config

    def _value(self, key: str, cleaned: dict[str, Any]) -> Any:
        """Return the value of a field in the config, "" if it is empty."""
        entered, upload = cleaned.get(key), cleaned.get(ACCOUNT_FILE) if key == ACCOUNT else None
        if entered and upload:
            self.add_error(ACCOUNT_FILE, "Upload the file or paste its contents, not both.")
        try:
            if key == ACCOUNT and (source := upload or entered):
                return uploads.service_account(source)
            return uploads.key_version(entered) if key == GOOGLE_KEY and entered else entered
        except ValidationError as error:
            self.add_error(ACCOUNT_FILE if upload else key, error)
            return {}

    def _new_key(self, source: str, cleaned: dict[str, Any]) -> str:
        """Return the key of a source other than `enter`, "" if the keystore has none."""
        assert self.answers is not None
        name = source.encode()
        if name not in self.answers:
            self.answers[name] = self._read_key(source, cleaned)
        key, fault = self.answers[name]
        if fault:
            self.add_error(KEYSTORE, fault)
        return key

    def _read_key(self, source: str, cleaned: dict[str, Any]) -> tuple[str, str]:
        if source != KeySource.KEYSTORE:
            return new_key(source), ""
        if not cleaned.get(KEYSTORE):
            return "", "Choose the keystore file."
        try:
            return uploads.decrypted_key(cleaned[KEYSTORE], cleaned.get(PASSPHRASE, "")), ""
        except ValidationError as error:
            return "", str(error.message)

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
        elif self.moves_rows and confirmed != self._expected(address):
            self._ask_to_confirm(follower, elsewhere, address, warning)
        elif confirmed and not is_replaced and not self.moves_rows:
            self.add_error(CONFIRMED, "Nothing would change. Enter the new secrets again.")

    def _expected(self, address: str) -> str:
        """Return what confirms the move: each validation generates another key."""
        if self.cleaned_data.get(KEY_SOURCE) == KeySource.GENERATE:
            return GENERATED
        return address or UNKNOWN_ADDRESS

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
        expected = self._expected(address)
        if expected == GENERATED:
            text = f"A new key has a new address. Saving it moves {users}. {FUNDS_STAY}"
        elif address:
            text = f"This key has another address, {address}. Saving it moves {users}. {FUNDS_STAY}"
        else:
            text = f"The address of this key cannot be read: {warning} Saving it leaves {users} without an address."
        if signing.is_local(self.instance):
            text += " The service deletes the old key: send the coins elsewhere first."
        secrets = [field.key for field in CONFIG_FIELDS if field.is_secret]
        if any(self.cleaned_data.get(name) for name in [*secrets, KEYSTORE, ACCOUNT_FILE]):
            text += " Enter the secrets again, as they are not kept, and confirm."
        if CONFIRMED in self.fields:
            self.fields[CONFIRMED].widget.attrs["value"] = expected
            if self.names_rows:
                # Validation has bound the field, which keeps the help text that it had.
                self[CONFIRMED].help_text = moves(follower, rows, count, self.sweep_link)
        self.add_error(CONFIRMED if CONFIRMED in self.fields else None, text)


def moves(follower: Follower, rows: QuerySet[Any], count: int, sweep_link: Callable[[Any], str]) -> str:
    """Return a table of the first rows that move, with the address that each leaves and the balance there."""
    amount = '<span class="amount" title="{1}">{0}</span>{2}'
    cells = [
        [link(row), row.address, format_html(amount, *follower.balance(row), sweep_link(row))]
        for row in rows[:MAX_NAMED]
    ]
    headers = [str(rows.model._meta.verbose_name).capitalize(), "Old address", "Balance there"]
    return render_to_string("admin/table.html", {"table": Table(headers, cells, max(0, count - MAX_NAMED))})


def as_sentence(fault: object) -> str:
    """Return a fault of the API as forms show theirs."""
    return f"{capfirst(str(fault)).removesuffix('.')}."
