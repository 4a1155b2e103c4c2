"""The form that tries or sends a transaction of a relayer."""

from __future__ import annotations

from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from chain.abi import EXAMPLE, InvalidCall, encode_call
from chain.fees.fee_history import SPEEDS
from chain.networks import networks
from chain.transactions import Draft, NotATransaction, Prices, Transaction, decode
from chain.units import amount
from relayers.models import Relayer
from rpc.models import FeeToken
from transactions.serializers import MAX_WEI, SendTransactionSerializer

HEX = {"spellcheck": "false", "placeholder": "0x…", "autocomplete": "off"}
PARTS = ("to", "value", "function", "arguments", "data", "gas_limit")
LABELS = ("external_id", "metadata")
ONLY_ENCODED = "Empty this field, or leave the encoded transaction empty."
# The fields that an encoded transaction may have besides those that can be sent.
UNSENDABLE = "It cannot be sent: the relayer sends transactions without access lists, blobs and authorizations."


def text_field(
    help_text: str = "", attrs: dict[str, Any] | None = None, *, label: str | None = None
) -> forms.CharField:
    """Return an optional field, with an area if it has `rows`."""
    widget = UnfoldAdminTextareaWidget if "rows" in (attrs or {}) else UnfoldAdminTextInputWidget
    return forms.CharField(label=label, required=False, widget=widget(attrs=attrs), help_text=help_text)


class TransactionForm(forms.Form):
    """Receiver, amount and data or a call, or an encoded transaction; `values` are those that REST accepts."""

    to = text_field("An account or a contract. Leave it empty to create a contract.", HEX, label="Receiver")
    value = text_field(label="Amount")
    function = text_field("The contract function to call, with its parameter types.", {**HEX, "placeholder": EXAMPLE})
    arguments = text_field(
        "One per line, or a JSON array. Arrays and tuples are JSON arrays.",
        {**HEX, "rows": 2, "placeholder": "0x…\n1000000"},
    )
    data = text_field(  # type: ignore[assignment]  # declared fields are not attributes of the class
        "Call data or creation code in hex, instead of a function.", {**HEX, "rows": 2}
    )
    gas_limit = text_field("Estimated if empty.", {"inputmode": "numeric"}, label="Gas limit")
    fee_token = forms.ChoiceField(
        label="Fee token", required=False, widget=UnfoldAdminSelectWidget, help_text="For the estimate."
    )
    speed = forms.ChoiceField(
        required=False, choices=[("", "Automatic"), *((name, name) for name in SPEEDS)], widget=UnfoldAdminSelectWidget
    )
    external_id = text_field("Your own ID, to find it by.", label="External ID")
    metadata = text_field(
        "Your own pairs, one per line, to find it by: not for secrets.", {"rows": 2, "placeholder": "customer: 81"}
    )
    transaction = text_field(
        "Used instead of the fields above: legacy or type 1 to 4, signed or unsigned. Only its receiver, amount, data "
        "and gas limit are sent; the relayer sets nonce and price.",
        {**HEX, "rows": 2},
        label="Encoded transaction",
    )

    def __init__(self, relayer: Relayer, data: Any = None, initial: Any = None) -> None:
        super().__init__(data, prefix="try", initial=initial)
        self.relayer, self.network = relayer, networks().get(relayer.network)
        self.values: dict[str, Any] = {}
        self.encoded = ""
        # Why what can be estimated cannot be sent.
        self.unsendable = ""
        symbol = self.network.symbol if self.network else ""
        coin = (symbol, f"{symbol}, the native coin") if symbol else ("native", "The native coin")
        tokens = FeeToken.objects.filter(network=relayer.network, enabled=True).values_list("address", "symbol")
        self.fields["fee_token"].choices = [  # type: ignore[attr-defined]
            ("", "All tokens of the network"),
            *tokens.order_by("symbol"),
            coin,
        ]
        self.fields["value"].widget.attrs["placeholder"] = f"0.01 {symbol}" if symbol else "0"
        self.fields["value"].help_text = (
            f"With its unit, for example 0.01 {symbol}; without one, in wei." if symbol else "In wei."
        )

    def sent(self) -> dict[str, str]:
        """Return what was sent, by the names of the inputs."""
        sent: Any = self.data
        return {self.add_prefix(name): sent.get(self.add_prefix(name), "") for name in self.fields}

    @property
    def main_fields(self) -> list[Any]:
        return [field for field in self if field.name not in {*LABELS, "transaction"}]

    @property
    def label_fields(self) -> list[Any]:
        return [self[name] for name in LABELS]

    def clean_metadata(self) -> dict[str, str]:
        pairs = [line.partition(":") for line in self.cleaned_data["metadata"].splitlines() if line.strip()]
        if not all(separator for _, separator, _ in pairs):
            raise forms.ValidationError("Enter one pair per line, as key: value.")
        return {key.strip(): value.strip() for key, _, value in pairs}

    def clean_value(self) -> str:
        text: str = self.cleaned_data["value"]
        value = amount(text, self.network) if text else 0
        if not isinstance(value, int) or value > MAX_WEI:
            raise forms.ValidationError("a whole number from 0 to 2^256 - 1 is required")
        return str(value)

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if cleaned.get("transaction"):
            self._read_encoded(cleaned["transaction"])
        else:
            self._read_parts(cleaned)
        return cleaned

    def _read_parts(self, cleaned: dict[str, Any]) -> None:
        names = ("to", "value", "data", "gas_limit", "speed", *LABELS)
        given = {name: cleaned[name] for name in names if cleaned.get(name)}
        if cleaned.get("function") and cleaned.get("data"):
            self.add_error("data", "Enter a function or data, not both.")
        elif cleaned.get("function"):
            try:
                given["data"] = f"0x{encode_call(cleaned['function'], cleaned['arguments']).hex()}"
            except InvalidCall as error:
                self.add_error(error.field, str(error))
            if not cleaned.get("to"):
                self.add_error("to", "Enter the contract that has the function.")
        elif cleaned.get("arguments"):
            self.add_error("function", "Enter the function that takes these arguments.")
        elif not cleaned.get("to") and not cleaned.get("data"):
            self.add_error("to", "Enter a receiver, or the creation code of a contract as data.")
        if self._set_values(given):
            self.encoded = f"0x{self._draft().unsigned.hex()}"

    def _draft(self) -> Draft:
        """Return the transaction without a nonce and a price."""
        is_legacy = self.relayer.policies.get("eip1559_pricing") is False
        prices = Prices(gas_price=0) if is_legacy else Prices(max_fee=0, max_priority_fee=0)
        to, data, gas = (self.values.get(name) for name in ("to", "data", "gas_limit"))
        return Draft(self._chain_id(), 0, to or "", self.values["value"], data or b"", gas or 0, prices)

    def _chain_id(self) -> int:
        return self.relayer.expected_chain_id or 0

    def _read_encoded(self, text: str) -> None:
        for name in PARTS:
            if self.sent()[self.add_prefix(name)].strip() not in {"", "0"}:
                self.add_error(name, ONLY_ENCODED)
        try:
            found = decode(text.strip())
        except NotATransaction as error:
            self.add_error("transaction", f"Not valid: {error}.")
            return
        self.encoded = text.strip()
        self.unsendable = self._why_unsendable(found)
        cleaned = self.cleaned_data
        kept = {name: cleaned[name] for name in ("speed", *LABELS) if cleaned.get(name)}
        given = {"value": str(found.value), "to": found.to, "gas_limit": str(found.gas) if found.gas else None}
        self._set_values({**given, "data": f"0x{found.data.hex()}", **kept})

    def _why_unsendable(self, found: Transaction) -> str:
        if found.access_list or found.blob_hashes or found.authorizations:
            return UNSENDABLE
        if found.chain_id not in {None, self._chain_id()}:
            return f"It cannot be sent: it is for chain {found.chain_id}, and the relayer is on {self._chain_id()}."
        return ""

    def _set_values(self, given: dict[str, Any]) -> bool:
        """Check the shape as REST does, and return whether there are no errors."""
        if self.errors:
            return False
        serializer = SendTransactionSerializer(data=given)
        if serializer.is_valid():
            self.values = serializer.validated_data
        else:
            self.add_faults(serializer.errors)
        return not self.errors

    def add_faults(self, faults: Any) -> None:
        """Add faults of the API to the fields that they name; of an encoded transaction, all to itself."""
        for name, texts in faults.items():
            is_encoded = self.encoded and self.cleaned_data.get("transaction") and name not in LABELS
            encoded = "transaction" if is_encoded else None
            field = encoded or ("function" if name == "data" and self.cleaned_data.get("function") else name)
            self.add_error(field if field in self.fields else None, [str(text) for text in texts])
