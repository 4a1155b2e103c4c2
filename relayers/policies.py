"""What a relayer may do, typed for each network type."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from eth_utils.address import is_checksum_address, is_hex_address, to_checksum_address
from rest_framework import serializers

from relayer_service.api.serializers import REQUIRED, StrictSerializer, StringField

LARGEST_AMOUNT = 2**128 - 1
MOST_RECEIVERS = 1_000


def list_messages(most: int) -> dict[str, Any]:
    return {**REQUIRED, "not_a_list": "a list is required", "max_length": f"at most {most} entries are allowed"}


class BooleanField(serializers.Field[Any, Any, Any, Any]):
    """A JSON boolean, and nothing that looks like one."""

    default_error_messages = {**REQUIRED, "invalid": "true or false is required"}

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid")
        return data

    def to_representation(self, value: bool) -> bool:
        return value


class IntegerField(serializers.Field[Any, Any, Any, Any]):
    """A JSON number without a fraction, exact."""

    default_error_messages = {**REQUIRED, "invalid": "a whole number from {least} to {most} is required"}

    def __init__(self, *, least: int = 0, most: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.least, self.most = least, most

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int) or not self.least <= data <= self.most:
            self.fail("invalid", least=self.least, most=self.most)
        return data

    def to_representation(self, value: int) -> int:
        return value


def validate_evm_address(value: str) -> None:
    """Refuse what is no EVM address, or one whose letters' case does not fit its checksum."""
    if not (value.startswith("0x") and is_hex_address(value)):
        raise ValidationError("an EVM address is required: 0x and 40 hexadecimal digits")
    digits = value[2:]
    if digits not in {digits.lower(), digits.upper()} and not is_checksum_address(value):
        raise ValidationError("the checksum of this address is wrong: a character was mistyped")


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
    gas_price_cap = IntegerField(most=LARGEST_AMOUNT, required=False, help_text="The highest price of gas, in wei.")
    min_balance = IntegerField(
        most=LARGEST_AMOUNT, required=False, help_text="A balance below this is a warning, in wei."
    )
    private_transactions = BooleanField(required=False, help_text="Whether transactions are sent privately.")
    whitelist_receivers = serializers.ListField(
        child=EvmAddressField(),
        required=False,
        max_length=MOST_RECEIVERS,
        error_messages=list_messages(MOST_RECEIVERS),
        help_text="The only addresses that transactions may go to.",
    )


POLICIES: dict[str, type[StrictSerializer]] = {"evm": EvmPolicies}


def validate_policies(network_type: str, policies: Any) -> dict[str, Any]:
    """Give policies as they are stored; raise a validation error with the path of each fault."""
    serializer = POLICIES[network_type](data=policies)
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)
