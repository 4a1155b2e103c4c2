"""EVM addresses and their checksum."""

from functools import lru_cache

from django.core.exceptions import ValidationError
from eth_utils.address import is_hex_address, to_checksum_address

# Addresses repeat, and a checksum requires a hash.
checksummed = lru_cache(maxsize=10_000)(to_checksum_address)


def validate_evm_address(value: str) -> None:
    """Raise `ValidationError` unless the value is an EVM address, with a valid checksum if it is in mixed case."""
    if not (value.startswith("0x") and is_hex_address(value)):
        raise ValidationError("must be an EVM address: 0x and 40 hexadecimal digits")
    digits = value[2:]
    if digits not in {digits.lower(), digits.upper()} and checksummed(value) != value:
        raise ValidationError("invalid checksum: a character of this address is mistyped")
