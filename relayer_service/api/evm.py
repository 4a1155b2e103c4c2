"""EVM addresses in requests and files."""

from django.core.exceptions import ValidationError
from drf_spectacular.utils import extend_schema_field
from eth_utils.address import is_hex_address

from relayer_service.api.serializers import StringField
from relayer_service.evm import checksummed


def validate_evm_address(value: str) -> None:
    """Raise `ValidationError` unless the value is an EVM address, with a valid checksum if it is in mixed case."""
    if not (value.startswith("0x") and is_hex_address(value)):
        raise ValidationError("must be an EVM address: 0x and 40 hexadecimal digits")
    digits = value[2:]
    if digits not in {digits.lower(), digits.upper()} and checksummed(value) != value:
        raise ValidationError("invalid checksum: a character of this address is mistyped")


@extend_schema_field({"type": "string", "pattern": "^0x[0-9a-fA-F]{40}$"})
class EvmAddressField(StringField):
    default_validators = [validate_evm_address]

    def to_representation(self, value: str) -> str:
        return checksummed(value)
