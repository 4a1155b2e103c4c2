"""What a relayer may do, typed for each network type."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from drf_spectacular.utils import extend_schema_field
from eth_utils.address import is_checksum_address, is_hex_address, to_checksum_address

from relayer_service.api.serializers import BooleanField, IntegerField, ListField, StrictSerializer, StringField

MAX_AMOUNT = 2**128 - 1
MAX_RECEIVERS = 1_000


def validate_evm_address(value: str) -> None:
    """Refuse what is no EVM address, or one whose letters' case does not fit its checksum."""
    if not (value.startswith("0x") and is_hex_address(value)):
        raise ValidationError("an EVM address is required: 0x and 40 hexadecimal digits")
    digits = value[2:]
    if digits not in {digits.lower(), digits.upper()} and not is_checksum_address(value):
        raise ValidationError("the checksum of this address is wrong: a character was mistyped")


@extend_schema_field({"type": "string", "pattern": "^0x[0-9a-fA-F]{40}$"})
class EvmAddressField(StringField):
    default_validators = [validate_evm_address]

    def to_representation(self, value: str) -> str:
        return to_checksum_address(value)


class EvmPolicies(StrictSerializer):
    """The policies of an EVM relayer. Amounts are in wei."""

    eip1559_pricing = BooleanField(
        required=False, help_text="Whether prices are those of EIP-1559; false: a single gas price."
    )
    gas_limit_estimation = BooleanField(
        required=False, help_text="Whether gas is estimated; false: the transaction's own gas limit."
    )
    gas_price_cap = IntegerField(max_value=MAX_AMOUNT, required=False, help_text="The highest price of gas, in wei.")
    min_balance = IntegerField(
        max_value=MAX_AMOUNT, required=False, help_text="A balance below this is a warning, in wei."
    )
    private_transactions = BooleanField(required=False, help_text="Whether transactions are sent privately.")
    whitelist_receivers = ListField(
        child=EvmAddressField(),
        required=False,
        max_length=MAX_RECEIVERS,
        help_text="The only addresses that transactions may go to.",
    )


class EvmPoliciesPatch(EvmPolicies):
    """The policies to change: those that are null are removed."""

    def get_fields(self) -> Any:
        fields = super().get_fields()
        for field in fields.values():
            field.allow_null = True
        return fields


POLICIES: dict[str, type[StrictSerializer]] = {"evm": EvmPolicies}
PATCHES: dict[str, type[StrictSerializer]] = {"evm": EvmPoliciesPatch}


def validate_policies(network_type: str, policies: Any) -> dict[str, Any]:
    """Return policies as they are stored; raise a validation error with the path of each fault."""
    return _validated(POLICIES[network_type], policies)


def merge_policies(network_type: str, policies: dict[str, Any], patch: Any) -> dict[str, Any]:
    """Return policies after a JSON Merge Patch; raise a validation error with the path of each fault."""
    merged = {**policies, **_validated(PATCHES[network_type], patch)}
    return {name: value for name, value in merged.items() if value is not None}


def _validated(serializer_class: type[StrictSerializer], data: Any) -> dict[str, Any]:
    serializer = serializer_class(data=data)
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)
