"""The JSON-RPC request, whose params the method validates; fee tokens and their price sources."""

from typing import Any, ClassVar

from django.core.exceptions import ValidationError as ModelError
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from relayer_service.amounts import BASIS_POINTS, parse_rate
from relayer_service.api import resource_serializers
from relayer_service.api.serializers import (
    BooleanField,
    ChoiceField,
    EvmAddressField,
    IntegerField,
    ListField,
    LiteralField,
    ObjectField,
    StrictSerializer,
    StringField,
    TimestampField,
)
from relayer_service.database.clock import timestamp
from relayers.policies import MAX_AMOUNT
from relayers.serializers.relayers import NetworkField
from rpc.models import FeeToken, PriceSource
from rpc.models.fee_tokens import MAX_SECONDS
from rpc.writes import FeeTokenWrite
from spending import shape

VERSION = "2.0"
MAX_SOURCES = 50
MARGIN_HELP = "Added to every fee, in basis points."
SPREAD_HELP = "In basis points. The token has no price if its sources differ by more."
SOURCES_HELP = "The median of their prices is used. Each has the fields of its kind. The complete list."


class RpcIdField(LiteralField):
    default_error_messages = {"invalid": "a string, a whole number or null is required"}

    def to_internal_value(self, data: Any) -> str | int:
        # In Python, True is an int.
        if isinstance(data, bool) or not isinstance(data, (str, int)):
            self.fail("invalid")
        return data


class RpcParamsField(ObjectField):
    """Any JSON object; the method validates it."""


class RpcRequestSerializer(StrictSerializer):
    """A JSON-RPC 2.0 request."""

    jsonrpc = ChoiceField([VERSION], help_text="The JSON-RPC version.")
    id = RpcIdField(required=False, allow_null=True, default=None, help_text="Returned as a string; null stays null.")
    method = StringField(allow_blank=True, help_text="The method to call.")
    params = RpcParamsField(required=False, default=dict, help_text="The params of the method.")


class RateField(StringField):
    """A decimal number as a string, so that no JSON reader rounds it."""

    def to_internal_value(self, data: Any) -> str:
        text = super().to_internal_value(data)
        try:
            parse_rate(text)
        except ValueError as error:
            raise ValidationError(str(error)) from None
        return text


class AmountField(IntegerField):
    """A number in the file, a string in the database."""

    def to_internal_value(self, data: Any) -> Any:
        return str(super().to_internal_value(data))

    def to_representation(self, value: Any) -> int:
        return int(value)


def seconds(min_value: int = 1) -> IntegerField:
    return IntegerField(min_value=min_value, max_value=MAX_SECONDS, required=False)


class SourceEntry(StrictSerializer):
    """A price source, with the fields of its kind."""

    # Set by the OpenAPI document, which has a schema for each kind.
    documented_kind = ""
    kind = ChoiceField(choices=PriceSource.Kind.choices)
    rate = RateField(required=False, source="rate_text")
    max_age_seconds = seconds()
    feed = EvmAddressField(required=False)
    heartbeat_seconds = seconds()
    native_feed = EvmAddressField(required=False)
    native_heartbeat_seconds = seconds()
    sequencer_feed = EvmAddressField(required=False)
    sequencer_grace_seconds = seconds(min_value=0)
    pair = EvmAddressField(required=False)
    wrapped_native = EvmAddressField(required=False)
    min_liquidity: LiteralField = AmountField(max_value=MAX_AMOUNT, required=False, source="min_liquidity_text")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Omit the fields of other kinds; if the kind is unknown, all are accepted."""
        fields = super().get_fields()
        kind = self.instance.kind if self.instance is not None else getattr(self, "initial_data", {}).get("kind")
        kind = self.documented_kind or kind
        if kind not in PriceSource.Kind.values:
            return fields
        names = ["kind", *PriceSource.fields_of(kind)]
        found = {name: field for name, field in fields.items() if (field.source or name) in names}
        for name, field in found.items():
            field.required = (field.source or name) in ["kind", *PriceSource.REQUIRED[PriceSource.Kind(kind)]]
        return found

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Apply the rules of the model; return the cleaned fields."""
        row = PriceSource(**attrs)
        try:
            row.full_clean(exclude=["token"])
        except ModelError as error:
            names = {field.source: name for name, field in self.fields.items()}
            raise ValidationError({names[name]: texts for name, texts in error.message_dict.items()}) from None
        return {name: getattr(row, name) for name in attrs}

    def to_representation(self, instance: PriceSource) -> dict[str, Any]:
        values = {name: (field, getattr(instance, str(field.source))) for name, field in self.fields.items()}
        return {
            name: field.to_representation(value) for name, (field, value) in values.items() if value not in {"", None}
        }


class SourceField(ObjectField):
    entry_class: ClassVar[type[SourceEntry]] = SourceEntry

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        entry = self.entry_class(data=super().to_internal_value(data))
        entry.is_valid(raise_exception=True)
        return dict(entry.validated_data)


class AmountTextField(shape.AmountField):
    """An amount that staff may have written with leading zeros."""

    def to_representation(self, value: Any) -> str:
        return str(int(value))


class PriceSourceSerializer(SourceEntry):
    """A price source, with the fields of its kind."""

    min_liquidity = AmountTextField(
        required=False, source="min_liquidity_text", help_text="In wei. A pair that holds less has no price."
    )


class PriceSourceField(SourceField):
    entry_class = PriceSourceSerializer


class FeeTokenSerializer(resource_serializers.ResourceSerializer):
    """A token that fees can be quoted in, on one network; fields that are not set are omitted."""

    id = StringField(help_text="`network:symbol`.")
    network = StringField()
    symbol = StringField(help_text="The value that callers send as `fee_token`.")
    address = StringField()
    enabled = BooleanField(help_text="Fees cannot be quoted in a disabled token.")
    margin_bps = IntegerField(max_value=BASIS_POINTS)
    max_spread_bps = IntegerField(max_value=BASIS_POINTS)
    sources = ListField(child=PriceSourceField())
    decimals = IntegerField(max_value=255, required=False, help_text="Read from the contract.")
    rate = StringField(required=False, help_text="Tokens for one native coin, as last read.")
    rated_at = TimestampField(required=False, help_text="When the rate was last read.")
    rate_error = StringField(required=False, help_text="Why the last attempt to read the rate failed.")

    def to_representation(self, instance: FeeToken) -> dict[str, Any]:
        read = {
            "decimals": instance.decimals,
            "rate": instance.rate_text or None,
            "rated_at": instance.rated_at and timestamp(instance.rated_at),
            "rate_error": instance.rate_error or None,
        }
        return {
            "id": f"{instance.network}:{instance.symbol}",
            **{name: getattr(instance, name) for name in FeeToken.CONFIGURED},
            "sources": [PriceSourceSerializer(source).data for source in instance.sources.all()],
            **{name: value for name, value in read.items() if value is not None},
        }


class SourcesMixin(serializers.Serializer[Any]):
    def values(self, attrs: dict[str, Any]) -> dict[str, Any]:
        return attrs | ({"sources": [PriceSource(**each) for each in attrs["sources"]]} if "sources" in attrs else {})


class CreateFeeTokenSerializer(SourcesMixin, resource_serializers.CreateSerializer):
    """A fee token to create."""

    answer_class = FeeTokenSerializer
    write_class = FeeTokenWrite

    network = NetworkField(help_text="A name from `GET /networks`.")
    symbol = StringField(max_length=32, help_text="The value that callers send as `fee_token`.")
    address = EvmAddressField(help_text="The contract of the token.")
    enabled = BooleanField(required=False, default=True)
    margin_bps = IntegerField(max_value=BASIS_POINTS, required=False, help_text=MARGIN_HELP)
    max_spread_bps = IntegerField(max_value=BASIS_POINTS, required=False, help_text=SPREAD_HELP)
    sources = ListField(child=PriceSourceField(), max_length=MAX_SOURCES, help_text=SOURCES_HELP)


class UpdateFeeTokenSerializer(SourcesMixin, resource_serializers.UpdateSerializer):
    """Changes of a fee token; omitted fields stay. Its network and symbol identify it and cannot be changed."""

    answer_class = FeeTokenSerializer
    write_class = FeeTokenWrite
    create_class = CreateFeeTokenSerializer

    address = EvmAddressField(required=False, help_text="The contract of the token.")
    enabled = BooleanField(required=False)
    margin_bps = IntegerField(max_value=BASIS_POINTS, required=False, help_text=MARGIN_HELP)
    max_spread_bps = IntegerField(max_value=BASIS_POINTS, required=False, help_text=SPREAD_HELP)
    sources = ListField(child=PriceSourceField(), max_length=MAX_SOURCES, required=False, help_text=SOURCES_HELP)
    confirm_rates = BooleanField(
        required=False, help_text="If true, the age of all fixed rates restarts now, even if they are unchanged."
    )
