"""The admin's form for relayers, with a field for each policy and a row for each node."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.widgets import UnfoldAdminTextInputWidget

from chain.networks import networks
from relayer_service.admin.forms import ResourceForm, declare_fields
from relayer_service.net.addresses import mask
from relayer_service.storage.encryption import DecryptionError
from relayers.account import Answers
from relayers.models import Relayer
from relayers.policies import validate_evm_address
from relayers.policy_fields import FORM_FIELDS, PREFIX, shown
from relayers.rpc_url_rows import RpcUrlRow, RpcUrlRows, RpcUrlRowSet, RpcUrlRowsField
from relayers.writes import NODE_PATH, RelayerWrite

COLUMNS = ["name", "network", "chain_id", "address", "signer", "notification", "paused"]
# API name of each field, where it differs.
API_NAMES = {"signer": "signer_id", "notification": "notification_id"}
UNREADABLE = "The stored URLs cannot be decrypted: {}. URLs entered here replace them."


class NetworkInput(UnfoldAdminTextInputWidget):
    """A text field that offers the known networks."""

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        attrs = {**(attrs or {}), "list": "known-networks", "autocomplete": "off"}
        known = ((network.name, f"chain {network.chain_id}") for network in networks().values())
        options = format_html_join("", '<option value="{}">{}</option>', known)
        field = super().render(name, value, attrs, renderer)
        return format_html('{}<datalist id="known-networks">{}</datalist>', field, options)


@declare_fields({PREFIX + name: field for name, field in FORM_FIELDS.items()})
class RelayerForm(ResourceForm):
    write_class = RelayerWrite
    write: RelayerWrite
    field_names = {name: field for field, name in API_NAMES.items()}

    network = forms.CharField(
        max_length=64,
        widget=NetworkInput,
        help_text="A suggested network, or another one with a chain ID and RPC URLs.",
    )
    rpc_urls = RpcUrlRowsField(
        label="RPC URLs",
        required=False,
        help_text="Used instead of the network's public nodes. Each receives calls in proportion to its weight, 0 to "
        "100; a node with weight 0 receives none. URLs are stored encrypted, and only their host is shown.",
    )

    # Shared by the forms that validate the same request twice.
    answers: Answers | None = None

    class Meta:
        model = Relayer
        fields = ["identifier", *COLUMNS]
        labels = {"chain_id": "Chain ID"}
        help_texts = {
            "chain_id": "Required for a network that is not suggested. The nodes must report this chain ID.",
            "address": "Derived from the signer, if it can provide it.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.is_bound and self.answers:
            self.write.answers = self.answers
        self._read_amounts_in_coins()
        for name in FORM_FIELDS:
            field = self.fields[PREFIX + name]
            field.initial = shown(self.instance.policies.get(name))
            field.show_hidden_initial = bool(self.instance.pk)
        self.rows = self._rpc_url_rows()
        if not self.is_bound and "identifier" in self.fields:
            # A script suggests an ID until one is typed.
            self.fields["identifier"].widget.attrs["data-slug-of"] = self["name"].id_for_label

    def _read_amounts_in_coins(self) -> None:
        """Read and show the minimum balance in the coin of the submitted network."""
        typed = self.data.get(self.add_prefix("network"), "") if self.is_bound else self.instance.network
        field: Any = self.fields[f"{PREFIX}min_balance"]
        field.show_in(networks().get(typed), self.instance.policies.get("min_balance"))

    def _rpc_url_rows(self) -> RpcUrlRowSet:
        field: Any = self.fields["rpc_urls"]
        try:
            rpc_urls = self.instance.custom_rpc_urls or []
        except DecryptionError:
            rpc_urls = []
            masked = ", ".join(entry["url"] for entry in self.instance.masked_rpc_urls)
            field.help_text = f"{UNREADABLE.format(masked)} {field.help_text}"
        rows: RpcUrlRowSet = RpcUrlRows(self.data if self.is_bound else None, rpc_urls)
        field.rows = field.widget.rows = rows
        return rows

    def clean_address(self) -> str:
        address: str = self.cleaned_data["address"]
        if address:
            validate_evm_address(address)
        return address

    def values(self, cleaned: dict[str, Any]) -> dict[str, Any]:
        changed = set(self.changed_data) if self.instance.pk else cleaned.keys()
        values = {API_NAMES.get(name, name): cleaned[name] for name in COLUMNS if name in changed & cleaned.keys()}
        # Policies that staff did not change keep their stored values.
        stored, typed = self.instance.policies, {name: cleaned.get(PREFIX + name) for name in FORM_FIELDS}
        policies = {name: typed[name] if PREFIX + name in changed else stored.get(name) for name in FORM_FIELDS}
        values["policies"] = {name: value for name, value in policies.items() if value is not None}
        if "rpc_urls" in changed & cleaned.keys():
            values["custom_rpc_urls"] = [entry for entry, _ in self.rows.merged()]
        return values

    def _post_clean(self) -> None:
        """Call the signer and nodes once everything else is valid."""
        super()._post_clean()  # type: ignore[misc]  # not in the stubs
        if self.errors:
            return
        try:
            self.write.check_account()
            self.write.check_nodes()
        except ValidationError as error:
            self.add_faults(error)
            return
        nodes = self._nodes()
        self.write.warnings = [
            (path, f"{nodes[path][0]}: {text}" if path in nodes else text) for path, text in self.write.warnings
        ]

    def add_faults(self, error: ValidationError) -> None:
        """Add the fault of a node to its row too."""
        faults = error.message_dict
        for path, (url, row) in self._nodes().items():
            texts = faults.pop(path, [])
            if texts:
                self.add_error("rpc_urls", [f"{url}: {text}" for text in texts])
            if texts and row is not None:
                row.add_error("url", texts)
        super().add_faults(ValidationError(faults))

    def _nodes(self) -> dict[str, tuple[str, RpcUrlRow | None]]:
        """Return the masked URL of each node and its row, by its path in faults and warnings."""
        merged = enumerate(self.rows.merged())
        return {NODE_PATH.format(index): (mask(entry["url"]), row) for index, (entry, row) in merged}

    def _update_errors(self, errors: ValidationError) -> None:
        """Drop errors that only follow from another one."""
        if self.errors.keys() & {"network", "rpc_urls"}:
            errors.error_dict.pop("network", None)
        super()._update_errors(errors)  # type: ignore[misc]  # not in the stubs
