"""The shape of spending rules in requests, fleet files and the admin."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema_field
from eth_utils.address import to_checksum_address
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail, ValidationError
from rest_framework.fields import empty

from relayer_service.api.error_codes import ErrorCode
from relayer_service.api.serializers import EvmAddressField, ExactAmountField, ListField, StrictSerializer, StringField

MAX_AMOUNT = 2**256 - 1
MAX_RECEIVERS = 200
MAX_SELECTORS = 50
MAX_TOKENS = 50
MAX_RECIPIENTS = 200
# Of all lists together: the rules are read for each transaction.
MAX_ENTRIES = 1_000
# The selector of a transfer without data.
NO_DATA = "0x"
SELECTOR = re.compile(r"0x(?:[0-9a-f]{8})?", re.ASCII)


def whole_number_schema(maximum: int, text_format: str) -> dict[str, Any]:
    """Return the OpenAPI schema of a whole number that can also be sent as a string."""
    integer = {"type": "integer", "minimum": 0, "maximum": maximum}
    return {"oneOf": [integer, {"type": "string", "pattern": f"^{text_format}$"}]}


class WholeNumberField(ExactAmountField):
    """A whole number as a JSON integer, or exact for any client as a string of digits."""

    default_error_messages = {"invalid": "a whole number from 0 to {maximum} is required"}
    text_format: ClassVar[re.Pattern[str]] = re.compile(r"[0-9]{1,78}", re.ASCII)
    max_value: ClassVar[int] = MAX_AMOUNT
    # As faults write it.
    maximum: ClassVar[str] = "2^256 - 1"

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, str) and self.text_format.fullmatch(data):
            data = int(data, 16 if data[1:2] in {"x", "X"} else 10)
        # In Python, True is an integer.
        if isinstance(data, bool) or not isinstance(data, int) or not 0 <= data <= self.max_value:
            self.fail("invalid", maximum=self.maximum)
        return data


@extend_schema_field({"type": "string", "pattern": "^[0-9]{1,78}$"})
class AmountField(WholeNumberField):
    """An amount in the smallest unit, as a whole number or its decimal digits; stored as digits."""

    def to_internal_value(self, data: Any) -> str:
        return str(super().to_internal_value(data))


class AddressField(EvmAddressField):
    """An address, stored with its checksum."""

    def run_validation(self, data: Any = empty) -> Any:
        return to_checksum_address(super().run_validation(data))


@extend_schema_field({"type": "string", "pattern": "^0x([0-9a-fA-F]{8})?$"})
class SelectorField(StringField):
    """The first four bytes of calldata, stored in lower case, or `0x` for a transfer without data."""

    default_error_messages = {
        "malformed": "must be a function selector, 0x and 8 hexadecimal digits, or 0x for a transfer without data"
    }

    def to_internal_value(self, data: Any) -> str:
        text = super().to_internal_value(data).lower()
        if not SELECTOR.fullmatch(text):
            self.fail("malformed")
        return text


class UniqueListField(ListField):
    """A list without duplicates, of strings or of objects with a distinct field `unique`."""

    default_error_messages = {"duplicate": "given more than once"}

    def __init__(self, *, unique: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.unique = unique

    def to_internal_value(self, data: Any) -> list[Any]:
        values = super().to_internal_value(data)
        faults: dict[Any, Any] = {}
        found: set[str] = set()
        for index, value in enumerate(values):
            name = value[self.unique] if self.unique else value
            if name in found:
                fault = [ErrorDetail(str(self.error_messages["duplicate"]), ErrorCode.DUPLICATE)]
                faults[index] = {self.unique: fault} if self.unique else fault
            found.add(name)
        if faults:
            raise ValidationError(faults)
        return values


class ReceiverRule(StrictSerializer):
    """A receiver, and the functions of it that can be called."""

    address = AddressField()
    selectors = UniqueListField(
        child=SelectorField(),
        required=False,
        min_length=1,
        max_length=MAX_SELECTORS,
        error_messages={"min_length": "must not be empty: omit it to allow every call"},
        help_text="The only functions that can be called; `0x` is a transfer without data. If omitted, every call.",
    )


class TokenRule(StrictSerializer):
    """An ERC-20 contract: only `transfer`, `approve` and `transferFrom` within these limits can be called."""

    contract = AddressField()
    recipients = UniqueListField(
        child=AddressField(),
        required=False,
        min_length=1,
        max_length=MAX_RECIPIENTS,
        error_messages={"min_length": "must not be empty: omit it to allow any, or set max_amount to 0"},
        help_text="The only receivers of tokens, and the only spenders to approve. If omitted, any.",
    )
    max_amount = AmountField(
        required=False, help_text="Maximum amount of a transfer or approval, in the token's smallest unit."
    )
    max_amount_per_day = AmountField(
        required=False, help_text="Maximum of what is transferred and approved within 24 hours."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if len(attrs) == 1:
            raise ValidationError({"contract": ["recipients, max_amount or max_amount_per_day is required with it"]})
        return attrs


class SpendingRules(StrictSerializer):
    """What can be sent and spent. Amounts are decimal digits, in wei or in a token's smallest unit."""

    max_value = AmountField(required=False, help_text="Maximum value of a transaction, in wei.")
    max_value_per_day = AmountField(required=False, help_text="Maximum value within 24 hours, in wei.")
    max_gas_cost_per_day = AmountField(required=False, help_text="Maximum cost of gas within 24 hours, in wei.")
    receivers = UniqueListField(
        child=ReceiverRule(),
        unique="address",
        required=False,
        max_length=MAX_RECEIVERS,
        help_text="The only receivers of transactions, besides the contracts in `tokens`. If omitted, any.",
    )
    tokens = UniqueListField(
        child=TokenRule(),
        unique="contract",
        required=False,
        max_length=MAX_TOKENS,
        help_text="ERC-20 contracts with limits.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if sum(_entries(attrs)) > MAX_ENTRIES:
            raise ValidationError(f"at most {MAX_ENTRIES} addresses and selectors are allowed in all")
        if not attrs.get("tokens"):
            # Unlike one of receivers, an empty list restricts nothing.
            attrs.pop("tokens", None)
        return attrs


class NullableFields(serializers.Serializer[Any]):
    """Accepts null in each field, which removes its value."""

    def get_fields(self) -> Any:
        fields = super().get_fields()
        for field in fields.values():
            field.allow_null = True
        return fields


class SpendingRulesPatch(NullableFields, SpendingRules):
    """Spending rules to change; null removes one."""


def _entries(rules: dict[str, Any]) -> Iterator[int]:
    for receiver in rules.get("receivers", ()):
        yield 1 + len(receiver.get("selectors", ()))
    for token in rules.get("tokens", ()):
        yield 1 + len(token.get("recipients", ()))


def ordered_rules(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return stored rules in the order of their fields: PostgreSQL does not keep the order of JSON keys."""
    return validate_rules(dict(rules))


def merge_rules(rules: Mapping[str, Any], patch: Any) -> dict[str, Any]:
    """Return rules after a JSON Merge Patch; raise `ValidationError` with the path of each fault."""
    if isinstance(patch, dict):
        fields = SpendingRules().fields
        merged = {**rules, **patch}
        # Null removes a rule, and is a fault elsewhere.
        patch = {name: value for name, value in merged.items() if value is not None or name not in fields}
    return validate_rules(patch)


def validate_rules(data: Any) -> dict[str, Any]:
    """Return rules as they are stored; raise `ValidationError` with the path of each fault."""
    return dict(SpendingRules().run_validation(data))
