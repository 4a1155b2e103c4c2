"""The admin's form for relayers: it asks signer and nodes before a relayer is saved."""

from __future__ import annotations

from collections.abc import Callable
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
from relayers.account import ask_address, ask_chain_ids, check_signer, choose_address, note_answer
from relayers.models import Relayer
from relayers.policies import validate_evm_address
from relayers.policy_fields import FORM_FIELDS, PREFIX, AmountField, shown
from relayers.rpc_url_rows import RpcUrlRows, RpcUrlRowSet, RpcUrlsField
from signers import signing

UNREADABLE = "Those that are set cannot be opened: {}. URLs that are typed here take their place."


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
    network = forms.CharField(
        max_length=64, widget=NetworkInput, help_text="One that is offered, or another with a chain id and RPC URLs."
    )
    rpc_urls = RpcUrlsField(
        label="RPC URLs",
        required=False,
        help_text="Instead of the network's public nodes. Calls go to each in proportion to its weight, 0 to 100; "
        "0 is off. Kept secret: of those that are set, only the host is shown.",
    )

    # What signer and nodes have answered, by question: shared with another form that checks the same request again.
    answers: dict[Any, Any] | None = None

    class Meta:
        model = Relayer
        fields = ["identifier", "name", "network", "chain_id", "address", "signer", "notification", "paused"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.answers = {} if self.answers is None else self.answers
        self.warnings: list[str] = []
        # What the signer has answered, if it was asked: why it has no address, or "".
        self.signer_answer: str | None = None
        self._read_amounts_in_coins()
        for name in FORM_FIELDS:
            field = self.fields[PREFIX + name]
            field.initial = shown(self.instance.policies.get(name))
            field.show_hidden_initial = bool(self.instance.pk)
        self.rows = self._rpc_url_rows()
        if not self.is_bound and "identifier" in self.fields:
            # A new relayer's id is suggested by a script, until one is typed.
            self.fields["identifier"].widget.attrs["data-slug-of"] = self["name"].id_for_label

    def _read_amounts_in_coins(self) -> None:
        """Read the minimum balance in the coin of the network that is typed, and show what is set in it."""
        typed = self.data.get(self.add_prefix("network"), "") if self.is_bound else self.instance.network
        field = self.fields[f"{PREFIX}min_balance"]
        assert isinstance(field, AmountField)
        field.show_in(networks().get(typed), self.instance.policies.get("min_balance"))

    def _rpc_url_rows(self) -> RpcUrlRowSet:
        field = self.fields["rpc_urls"]
        assert isinstance(field, RpcUrlsField)
        try:
            rpc_urls = self.instance.custom_rpc_urls or []
        except DecryptionError:
            rpc_urls = []
            masked = ", ".join(entry["url"] for entry in self.instance.masked_rpc_urls)
            field.help_text = f"{UNREADABLE.format(masked)} {field.help_text}"
        rows: RpcUrlRowSet = RpcUrlRows(self.data if self.is_bound else None, rpc_urls)
        field.show(rows)
        return rows

    def clean_address(self) -> str:
        address: str = self.cleaned_data["address"]
        if address:
            validate_evm_address(address)
        return address

    def _post_clean(self) -> None:
        """Put policies and URLs onto the instance before Django checks it; ask others about a valid one only."""
        changed = set(self.changed_data)
        self._set_policies(changed)
        if "rpc_urls" in changed & set(self.cleaned_data):
            self.instance.set_rpc_urls([entry for entry, _ in self.rows.merged()])
        super()._post_clean()  # type: ignore[misc]  # not in the stubs
        if not self.errors:
            self._check_account(changed)
        if not self.errors:
            self._check_nodes(changed)

    def _update_errors(self, errors: ValidationError) -> None:
        """Leave out errors that only follow from one that is reported already."""
        if self.errors.keys() & {"network", "rpc_urls"}:
            errors.error_dict.pop("network", None)
        super()._update_errors(errors)  # type: ignore[misc]  # not in the stubs

    def _set_policies(self, changed: set[str]) -> None:
        """Replace the policies that staff have changed, and keep the others as they are stored now."""
        stored, typed = self.instance.policies, self.cleaned_data
        values = {
            name: typed.get(PREFIX + name) if PREFIX + name in changed else stored.get(name) for name in FORM_FIELDS
        }
        self.instance.policies = {name: value for name, value in values.items() if value is not None}

    def _check_account(self, changed: set[str]) -> None:
        relayer, adding = self.instance, self.instance._state.adding
        try:
            check_signer(relayer.signer, relayer.network_type)
        except ValidationError as error:
            self.add_error("signer", error.message_dict["signer_id"])
            return
        is_settled = not adding and relayer.address and not changed & {"signer", "address"}
        # A local key is checked each time: it may have been changed since.
        is_verified = relayer.signer.verified_identity in {"", relayer.address}
        if is_settled and is_verified and not signing.is_local(relayer.signer):
            return
        # The address of the previous signer says nothing about this one's.
        given = relayer.address if adding or "address" in changed else ""
        question = (relayer.signer.pk, relayer.signer.config_version)
        found, warning = self._answer(question, lambda: ask_address(relayer.signer))
        self.signer_answer = warning
        try:
            address = choose_address(found, given)
        except ValidationError as error:
            self.add_error(None, error)
            return
        if not (is_settled and warning):
            relayer.address = address
        if warning:
            self.warnings.append(f"{warning} Its address is taken as it was given." if given else warning)

    def save(self, commit: bool = True) -> Any:
        if self.signer_answer is not None:
            note_answer(self.instance.signer, self.signer_answer)
        return super().save(commit)

    def _check_nodes(self, changed: set[str]) -> None:
        """Check that the relayer's own nodes are on its chain; one that does not answer now is accepted."""
        if not self.instance._state.adding and not changed & {"rpc_urls", "network", "chain_id"}:
            return
        entries = list(self.rows.merged())
        urls = [entry["url"] for entry, _ in entries]
        expected = self.instance.expected_chain_id
        for (entry, row), found in zip(entries, self._answer(tuple(urls), lambda: ask_chain_ids(urls)), strict=True):
            if isinstance(found, str):
                self.warnings.append(f"The chain id of {mask(entry['url'])} was not checked: {found}.")
            elif found != expected:
                fault = f"{mask(entry['url'])} is on chain {found} instead of {expected}"
                if row is not None:
                    row.add_error("url", f"it is on chain {found} instead of {expected}")
                self.add_error("rpc_urls", fault)

    def _answer(self, question: Any, ask: Callable[[], Any]) -> Any:
        assert self.answers is not None
        if question not in self.answers:
            self.answers[question] = ask()
        return self.answers[question]
