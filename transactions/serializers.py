"""The shape of a request that sends a transaction. What depends on the relayer: `requests/policy_checks.py`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from relayer_service.api.serializers import (
    IDENTIFIER,
    BodySerializer,
    BooleanField,
    ChoiceField,
    EvmAddressField,
    IdentifierField,
    IntegerField,
    LiteralField,
    ObjectField,
    StringField,
    TimeField,
    TimestampField,
)
from relayers.signatures.serializers import SignatureSerializer
from spending.shape import WholeNumberField, whole_number_schema
from transactions.models import Status, Transaction
from transactions.records import labels
from transactions.records.list_payloads import TransactionPageSerializer

MAX_WEI = 2**256 - 1
# Of the column, and far above the gas of any block.
MAX_GAS = 2**63 - 1
MAX_NONCE = 2**63 - 1
# Nodes refuse larger transactions.
MAX_DATA_BYTES = 131_072
# A field whose null is the same as none.
OPTIONAL: dict[str, Any] = {"required": False, "allow_null": True}
DATA = re.compile(r"(?:0[xX])?((?:[0-9a-fA-F]{2})*)", re.ASCII)


@extend_schema_field(whole_number_schema(MAX_WEI, "([0-9]{1,78}|0[xX][0-9a-fA-F]{1,64})"))
class WeiField(WholeNumberField):
    """An amount of wei; a string can also have hexadecimal digits after 0x."""

    default_error_messages = {
        "invalid": "a whole number from 0 to {maximum} is required, as an integer or a string of digits"
    }
    text_format = re.compile(r"[0-9]{1,78}|0[xX][0-9a-fA-F]{1,64}", re.ASCII)


@extend_schema_field(whole_number_schema(MAX_GAS, "([0-9]{1,19}|0[xX][0-9a-fA-F]{1,16})"))
class GasField(WeiField):
    max_value = MAX_GAS
    maximum = "2^63 - 1"


@extend_schema_field({"type": "string", "pattern": "^(0[xX])?([0-9a-fA-F]{2})*$", "maxLength": 2 * MAX_DATA_BYTES + 2})
class HexDataField(LiteralField):
    default_error_messages = {
        "invalid": "an even number of hexadecimal digits is required, with or without 0x",
        "max_length": f"at most {MAX_DATA_BYTES} bytes are allowed",
    }

    def to_internal_value(self, data: Any) -> bytes:
        found = DATA.fullmatch(data) if isinstance(data, str) else None
        if found is None:
            self.fail("invalid")
        decoded = bytes.fromhex(found[1])
        if len(decoded) > MAX_DATA_BYTES:
            self.fail("max_length")
        return decoded


@extend_schema_field(
    {
        "type": "object",
        "maxProperties": labels.MAX_PAIRS,
        "propertyNames": {"pattern": f"^{labels.KEY.pattern}$"},
        "additionalProperties": {"type": "string", "maxLength": labels.MAX_VALUE, "pattern": IDENTIFIER},
    }
)
class MetadataField(ObjectField):
    default_error_messages = {
        "max_length": f"at most {labels.MAX_PAIRS} pairs are allowed",
        "key": "a key has 1 to 40 letters, digits, dots, hyphens and underscores",
        "value": f"a value is a string of at most {labels.MAX_VALUE} characters without control characters",
        "size": f"at most {labels.MAX_BYTES} bytes of keys and values are allowed, in UTF-8",
    }

    def to_internal_value(self, data: Any) -> Mapping[str, str]:
        metadata = super().to_internal_value(data)
        if len(metadata) > labels.MAX_PAIRS:
            self.fail("max_length")
        if not all(map(labels.KEY.fullmatch, metadata)):
            self.fail("key")
        if not all(map(labels.is_value, metadata.values())):
            self.fail("value")
        if labels.size(metadata) > labels.MAX_BYTES:
            self.fail("size")
        return metadata


class PricedSerializer(BodySerializer):
    """A body whose price is set by at most one of: `speed`, `gas_price`, the two maximum fees."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """Return the fields that were sent; null is the same as omitted."""
        values = super().to_internal_value(data)
        return {name: value for name, value in values.items() if value is not None}

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if faults := self.conflicts(attrs):
            raise ValidationError(faults)
        return attrs

    def conflicts(self, values: dict[str, Any]) -> dict[str, list[str]]:
        """Return the faults of fields that do not fit each other, by name."""
        faults: dict[str, list[str]] = {}
        max_fee, priority_fee = values.get("max_fee_per_gas"), values.get("max_priority_fee_per_gas")
        if max_fee is None and priority_fee is not None:
            faults["max_fee_per_gas"] = ["required with max_priority_fee_per_gas"]
        if priority_fee is None and max_fee is not None:
            faults["max_priority_fee_per_gas"] = ["required with max_fee_per_gas"]
        if max_fee is not None and priority_fee is not None and priority_fee > max_fee:
            faults["max_priority_fee_per_gas"] = ["must not be above max_fee_per_gas"]
        has_max_fees = max_fee is not None or priority_fee is not None
        if sum((has_max_fees, "gas_price" in values, "speed" in values)) > 1:
            faults["non_field_errors"] = ["only one of gas_price, the two maximum fees and speed can be sent"]
        return faults


class SendTransactionSerializer(PricedSerializer):
    """A transaction to send. Its price is set by at most one of: `speed`, `gas_price`, the two maximum fees."""

    to = EvmAddressField(**OPTIONAL, help_text="The receiver; omitted to create a contract.")
    value = WeiField(help_text="In wei.")
    data = HexDataField(  # type: ignore[assignment]  # declared fields are not attributes of the class
        **OPTIONAL, help_text="The call data, or the creation code of a contract."
    )
    gas_limit = GasField(
        **OPTIONAL, help_text="Estimated if omitted. Required if the relayer's policy `gas_limit_estimation` is false."
    )
    gas_price = WeiField(**OPTIONAL, help_text="A fixed price, for a legacy transaction.")
    max_fee_per_gas = WeiField(**OPTIONAL)
    max_priority_fee_per_gas = WeiField(**OPTIONAL)
    speed = ChoiceField(
        choices=Transaction.Speed.choices,
        **OPTIONAL,
        help_text="The market price for this speed. Default if no price is sent: `fast`.",
    )
    valid_until = TimeField(
        **OPTIONAL, help_text="When it expires unless it was executed. Default: TRANSACTION_VALID_HOURS from now."
    )
    external_id = IdentifierField(
        **OPTIONAL, help_text="Your own ID, to find it by; several transactions can have the same."
    )
    metadata = MetadataField(
        **OPTIONAL,
        help_text="Your own pairs, to find it by: not for secrets. Keys, values and all of them are limited in size.",
    )

    @classmethod
    def read_only_names(cls) -> Collection[str]:
        return TransactionSerializer().fields.keys()

    def conflicts(self, values: dict[str, Any]) -> dict[str, list[str]]:
        faults = super().conflicts(values)
        if not values.get("to") and not values.get("data"):
            faults["data"] = ["required to create a contract: send it, or the receiver as `to`"]
        return faults


class SpeedUpSerializer(PricedSerializer):
    """A higher price, set by at most one of: `speed`, `gas_price`, the two maximum fees. Empty for one step up."""

    speed = ChoiceField(
        choices=Transaction.Speed.choices,
        **OPTIONAL,
        help_text="The market price for this speed, and at least what replaces the transaction in flight.",
    )
    gas_price = WeiField(**OPTIONAL, help_text="Used exactly, for a legacy transaction.")
    max_fee_per_gas = WeiField(**OPTIONAL, help_text="Used exactly.")
    max_priority_fee_per_gas = WeiField(**OPTIONAL, help_text="Used exactly.")


class ReasonSerializer(serializers.Serializer[Any]):
    """The query parameter of requests that cancel, replace or speed up a transaction."""

    reason = StringField(
        required=False,
        allow_blank=True,
        max_length=500,
        help_text="Why it is requested: for the audit log, `transaction.canceled` and `transaction.replaced`.",
    )


class TransactionSerializer(serializers.Serializer[Any]):
    """A transaction. Amounts are in wei; fields without a value are null. For the OpenAPI document only."""

    class Meta:
        list_serializer_class = TransactionPageSerializer

    id = StringField()
    relayer_id = StringField()
    status = ChoiceField(choices=Status.choices)
    status_reason = StringField(allow_null=True, help_text="Why it is in this status, and not further.")
    version = IntegerField(max_value=2**31 - 1, help_text="Rises with every change.")
    hash = StringField(allow_null=True, help_text="Of the attempt in a block, or else the newest one.")
    nonce = IntegerField(max_value=MAX_NONCE, allow_null=True)
    to = StringField(allow_null=True, help_text="Null if it creates a contract.")
    value = StringField()
    data = StringField(allow_null=True)  # type: ignore[assignment]  # as above
    data_size = IntegerField(max_value=2**31 - 1, help_text="Bytes of `data`, which is null in lists above 1,024.")
    gas_limit = IntegerField(max_value=MAX_GAS, allow_null=True)
    gas_price = StringField(allow_null=True)
    max_fee_per_gas = StringField(allow_null=True)
    max_priority_fee_per_gas = StringField(allow_null=True)
    speed = ChoiceField(choices=Transaction.Speed.choices, allow_null=True)
    signature = SignatureSerializer(allow_null=True)
    is_canceled = BooleanField()
    created_at = TimestampField()
    sent_at = TimestampField(allow_null=True)
    confirmed_at = TimestampField(allow_null=True)
    valid_until = TimestampField()
    block_number = IntegerField(max_value=2**63 - 1, allow_null=True)
    gas_used = IntegerField(max_value=2**63 - 1, allow_null=True)
    effective_gas_price = StringField(allow_null=True)
    contract_address = StringField(allow_null=True)
    external_id = StringField(allow_null=True)
    metadata = MetadataField(help_text="Sorted by key.")

    def get_fields(self) -> dict[str, Any]:
        # A keyword of Python, and so not an attribute above.
        return {**super().get_fields(), "from": StringField(help_text="The account of the relayer.")}


class CanceledTransactionsSerializer(serializers.Serializer[Any]):
    """The result of canceling all transactions of a relayer. For the OpenAPI document only."""

    queued_for_cancellation_transaction_ids = serializers.ListField(child=StringField())
    failed_to_queue_transaction_ids = serializers.ListField(child=StringField())
    total_processed = IntegerField(max_value=2**31 - 1)


class AmountField(StringField):
    """An integer in responses, as text: many JSON parsers round numbers of this size."""

    def to_representation(self, value: int) -> str:
        return str(value)


class DryRunCheckSerializer(serializers.Serializer[Any]):
    """A rule that depends on nothing that was spent before."""

    source = ChoiceField(  # type: ignore[assignment]  # as above
        choices=["state", "policies", "queue", "relayer", "token"],
        help_text="The relayer's state, policies or queue, or whose spending rule it is.",
    )
    rule = StringField(help_text="The name of the rule, or the field that a policy refuses.")
    allowed = BooleanField()
    text = StringField()


class DryRunLimitSerializer(serializers.Serializer[Any]):
    """A limit per 24 hours. Amounts are in wei, or in the smallest unit of the token."""

    source = ChoiceField(choices=["relayer", "token"])  # type: ignore[assignment]  # as above
    rule = StringField()
    name = StringField(help_text="`value`, `gas`, or `token:` and the address of the contract.")
    maximum = AmountField()
    used = AmountField()
    left = AmountField()
    amount = AmountField(allow_null=True, help_text="What it would count; null if its gas is unknown.")
    allowed = BooleanField(help_text="A transaction waits for a limit of gas, and is refused by the others.")


class DryRunEstimateSerializer(serializers.Serializer[Any]):
    """Gas limit and price of the first attempt, at the present market."""

    gas_limit = IntegerField(max_value=MAX_GAS, allow_null=True)
    gas_price = AmountField(allow_null=True)
    max_fee_per_gas = AmountField(source="max_fee", allow_null=True)
    max_priority_fee_per_gas = AmountField(source="max_priority_fee", allow_null=True)
    max_gas_cost = AmountField(allow_null=True, help_text="With charges for L1, without the value.")
    reason = StringField(allow_null=True, help_text="Why there is no estimate: it would wait or fail.")


class DryRunSerializer(serializers.Serializer[Any]):
    """What would happen to a transaction."""

    allowed = BooleanField(help_text="Whether it would be accepted.")
    checks = DryRunCheckSerializer(many=True)
    limits = DryRunLimitSerializer(many=True)
    estimate = DryRunEstimateSerializer()
