"""The admin's form for relayers, with a field for each policy and a row for each node."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminTextInputWidget

from chain.networks import networks, resolve_alias
from chain.units import coin
from notifications.models import Notification
from relayer_service import extensions
from relayer_service.console.forms import ResourceForm, declare_fields
from relayer_service.evm import validate_evm_address
from relayer_service.net.addresses import mask
from relayer_service.storage.encryption import DecryptionError
from relayer_service.tags import validate_tags
from relayers.console.url_rows import RpcUrlRow, RpcUrlRows, RpcUrlRowSet, RpcUrlRowsField
from relayers.health.probes import ProbeCache
from relayers.models import MASKED_COLUMNS, Relayer
from relayers.models.top_ups import TOP_UP_COLUMNS
from relayers.policy_fields import FORM_FIELDS, PREFIX, RESERVE_FORM_FIELD, AmountField, shown
from relayers.serializers.top_ups import AMOUNT_FIELDS
from relayers.writes import NODE_PATH, RelayerWrite
from spending.console.rule_fields import SpendingRulesField
from spending.writes import stored_rules

COLUMNS = [
    "name", "network", "chain_id", "address", "signer", "notification", "paused", "private_fallback_blocks",
    "allow_signing",
]  # fmt: skip
# The field with the rows of each column of nodes.
NODE_ROWS = {"custom_rpc_urls": "rpc_urls", "private_rpc_urls": "private_urls"}
# API name of each field, where it differs.
API_NAMES = {"signer": "signer_id", "notification": "notification_id"}
# The form's fields of the automatic top-up, by API name.
TOP_UP_FIELDS = {"funding_relayer_id": "funding_relayer", **{name: f"top_up_{name}" for name in AMOUNT_FIELDS}}
TOP_UP_AMOUNTS = [TOP_UP_FIELDS[name] for name in AMOUNT_FIELDS]
# The permission to set one, besides that to change relayers.
FUNDING = "transactions.add_transaction"
OTHERS_PAY = f"Requires the permission {FUNDING}, for a key that another relayer has or had, or funds, and for nodes."
UNREADABLE = "The stored URLs cannot be decrypted: {}. URLs entered here replace them."


def shows_signing(relayer: Relayer | None) -> bool:
    """Return whether a page has the field: without the extension, only to show and remove what is set."""
    return extensions.is_enabled("signing") or bool(relayer and relayer.allow_signing)


class TagsField(forms.CharField):
    """Tags, separated by spaces or commas."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(required=False, widget=UnfoldAdminTextInputWidget(), **kwargs)

    def prepare_value(self, value: Any) -> Any:
        return " ".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        return value if isinstance(value, list) else (value or "").replace(",", " ").split()

    def run_validators(self, value: Any) -> None:
        validate_tags(value)


class NetworkInput(UnfoldAdminTextInputWidget):
    """A text field that offers the known networks."""

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        attrs = {**(attrs or {}), "list": "known-networks", "autocomplete": "off"}
        known = ((network.name, f"chain {network.chain_id}") for network in networks().values())
        options = format_html_join("", '<option value="{}">{}</option>', known)
        field = super().render(name, value, attrs, renderer)
        return format_html('{}<datalist id="known-networks">{}</datalist>', field, options)


@declare_fields(
    {
        **{PREFIX + name: field for name, field in FORM_FIELDS.items()},
        "reserve": RESERVE_FORM_FIELD,
        **{
            TOP_UP_FIELDS[name]: AmountField(field, label=f"Top-up {name.replace('_', ' ')}")
            for name, field in AMOUNT_FIELDS.items()
        },
    }
)
class RelayerForm(ResourceForm):
    write_class = RelayerWrite
    write: RelayerWrite
    field_names = {name: field for field, name in API_NAMES.items()} | {
        f"top_up.{name}": field for name, field in TOP_UP_FIELDS.items()
    }

    network = forms.CharField(
        max_length=64, widget=NetworkInput, help_text="Choose a network, or enter your own with chain ID and RPC URLs."
    )
    rpc_urls = RpcUrlRowsField(
        label="RPC URLs",
        required=False,
        help_text="Used instead of the network's public nodes. Each receives calls in proportion to its weight, 0 to "
        "100; a node with weight 0 receives none. URLs are stored encrypted, and only their host is shown.",
    )

    private_urls = RpcUrlRowsField(
        label="Private RPC URLs",
        required=False,
        help_text="Nodes that do not publish transactions before they are mined, used instead of the "
        "network's by relayers with private transactions. Stored and shown like RPC URLs.",
    )
    tags = TagsField(
        help_text="Names that group relayers, separated by spaces. Tokens with tag:NAME reach those with this tag: "
        "a change takes effect at their next request.",
    )
    allow_signing = forms.MultipleChoiceField(
        label="Allow signing",
        required=False,
        choices=Relayer.SigningKind.choices,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text="What tokens with the scope “sign” can sign with this key. Whoever holds a signature can use "
        "it without the service: a signed permit (EIP-2612) can empty the account without a transaction of this "
        "relayer. Allow only what is needed. Every signature is in the audit log.",
    )
    spending_rules = SpendingRulesField(required=False, label="Spending rules")

    # Shared by the forms that validate the same request twice.
    answers: ProbeCache | None = None
    # Set by the admin for staff who can send transactions: a top-up moves coins.
    can_fund = False

    class Meta:
        model = Relayer
        fields = ["identifier", *COLUMNS, "funding_relayer"]
        labels = {"chain_id": "Chain ID"}
        help_texts = {
            "chain_id": "Required for a network that is not suggested. The nodes must report this chain ID.",
            "address": "Filled in from the signer.",
            "private_fallback_blocks": "Blocks after which an unmined private transaction is also sent to public "
            "nodes. If empty, never.",
            "funding_relayer": "The relayer on the same chain that sends coins when the balance falls below the "
            "minimum. If empty, there is no automatic top-up.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.is_bound and self.answers:
            self.write.answers = self.answers
        self.fields["tags"].initial = self.instance.tags
        for name in FORM_FIELDS:
            self.fields[PREFIX + name].initial = shown(self.instance.policies.get(name))
        self._read_amounts_in_coins()
        for name in (*(PREFIX + name for name in FORM_FIELDS), "reserve", "tags", *TOP_UP_AMOUNTS):
            self.fields[name].show_hidden_initial = bool(self.instance.pk)
        target: Any = self.fields.get("notification")
        if target:
            # Channels for people receive the events of all relayers.
            target.queryset = Notification.objects.filter(type=Notification.Type.WEBHOOK)
        if not shows_signing(self.instance):
            del self.fields["allow_signing"]
        for name in () if self.can_fund else self.fields.keys() & {*TOP_UP_FIELDS.values()}:
            self.fields[name].disabled = True
            self.fields[name].help_text = f"Requires the permission {FUNDING}. {self.fields[name].help_text}"
        self.rows = {column: self._rpc_url_rows(column) for column in NODE_ROWS}
        if not self.is_bound and "identifier" in self.fields:
            # A script suggests an ID until one is typed.
            self.fields["identifier"].widget.attrs["data-slug-of"] = self["name"].id_for_label

    def _read_amounts_in_coins(self) -> None:
        """Read and show amounts and the spending rules in the coin of the submitted network."""
        typed = self.data.get(self.add_prefix("network"), "") if self.is_bound else self.instance.network
        network, fields = networks().get(resolve_alias(typed)), dict[str, Any](self.fields)
        stored = {PREFIX + name: self.instance.policies.get(name, "") for name in ("gas_price_cap", "min_balance")}
        stored |= {TOP_UP_FIELDS[name]: getattr(self.instance, TOP_UP_COLUMNS[name]) for name in AMOUNT_FIELDS}
        for name, text in {**stored, "reserve": self.instance.reserve_text}.items():
            fields[name].show_in(network, None if text in {"", None} else int(text))
        fields["spending_rules"].edit(
            self.data if self.is_bound else None,
            stored_rules(self.instance),
            coin(network),
            network.name if network else "",
        )

    def _rpc_url_rows(self, column: str) -> RpcUrlRowSet:
        field: Any = self.fields[NODE_ROWS[column]]
        try:
            rpc_urls = getattr(self.instance, column) or []
        except DecryptionError:
            rpc_urls = []
            masked = ", ".join(entry["url"] for entry in getattr(self.instance, MASKED_COLUMNS[column]))
            field.help_text = f"{UNREADABLE.format(masked)} {field.help_text}"
        rows: RpcUrlRowSet = RpcUrlRows(self.data if self.is_bound else None, rpc_urls, NODE_ROWS[column])
        field.rows = field.widget.rows = rows
        return rows

    def clean_network(self) -> str:
        typed: str = self.cleaned_data["network"]
        return resolve_alias(typed) if "network" in self.changed_data else typed

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
        values["payer_refusal"] = None if self.can_fund else ValidationError({"signer_id": OTHERS_PAY})
        if changed & {*TOP_UP_FIELDS.values()}:
            values["top_up"] = self._top_up(cleaned, changed)
        for column, field in NODE_ROWS.items():
            if field in changed & cleaned.keys():
                values[column] = [entry for entry, _ in self.rows[column].merged()]
        for name in {"reserve", "spending_rules", "tags"} & changed & cleaned.keys():
            values[name] = cleaned[name]
        return values

    def _top_up(self, cleaned: dict[str, Any], changed: Any) -> dict[str, Any]:
        """Return the automatic top-up; amounts that staff did not change keep their stored values."""
        values: dict[str, Any] = {"funding_relayer_id": cleaned.get("funding_relayer")}
        for name in AMOUNT_FIELDS:
            stored = getattr(self.instance, TOP_UP_COLUMNS[name])
            values[name] = cleaned.get(TOP_UP_FIELDS[name]) if TOP_UP_FIELDS[name] in changed else stored or None
        return values

    def _post_clean(self) -> None:
        """Call the signer and nodes once everything else is valid."""
        super()._post_clean()  # type: ignore[misc]  # not in the stubs
        if self.errors:
            return
        try:
            self.write.check_account()
            self.write.check_nodes()
            self.write.warn_if_shared()
        except ValidationError as error:
            self.add_faults(error)
            return
        nodes = self._nodes()
        self.write.warnings = [
            (path, f"{nodes[path][0]}: {text}" if path in nodes else text) for path, text in self.write.warnings
        ]

    def add_faults(self, error: ValidationError) -> None:
        """Also add the fault of a node to its row."""
        faults = error.message_dict
        for path, (url, row) in self._nodes().items():
            texts = faults.pop(path, [])
            if texts:
                self.add_error(NODE_ROWS[path.partition("[")[0]], [f"{url}: {text}" for text in texts])
            if texts and row is not None:
                row.add_error("url", texts)
        super().add_faults(ValidationError(faults))

    def _nodes(self) -> dict[str, tuple[str, RpcUrlRow | None]]:
        """Return the masked URL of each node and its row, by its path in faults and warnings."""
        return {
            NODE_PATH.format(column, index): (mask(entry["url"]), row)
            for column, rows in self.rows.items()
            for index, (entry, row) in enumerate(rows.merged())
        }

    def _update_errors(self, errors: ValidationError) -> None:
        """Drop errors that only follow from another one."""
        if self.errors.keys() & {"network", "rpc_urls"}:
            errors.error_dict.pop("network", None)
        # An amount that cannot be read is empty.
        has_fault = bool(self.errors.keys() & {*TOP_UP_FIELDS.values()})
        for name in [name for name in errors.error_dict if name.startswith("top_up.")]:
            faults = errors.error_dict.pop(name)
            if not has_fault:
                errors.error_dict[self.field_names[name]] = faults
        super()._update_errors(errors)  # type: ignore[misc]  # not in the stubs
