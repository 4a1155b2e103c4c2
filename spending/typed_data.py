"""What EIP-712 typed data authorises: for which contract, and whether it is an ERC-2612 permit."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eth_utils.address import to_checksum_address

DOMAIN = "EIP712Domain"
# The fields of a domain, in the order of the standard.
DOMAIN_TYPES = {
    "name": "string",
    "version": "string",
    "chainId": "uint256",
    "verifyingContract": "address",
    "salt": "bytes32",
}
PERMIT = "Permit"
PERMIT_TYPES = {
    "owner": "address",
    "spender": "address",
    "value": "uint256",
    "nonce": "uint256",
    "deadline": "uint256",
}
# Not of a basic type: a struct could stand for another type than its name says.
STRUCT_NAME = re.compile(r"(?!(?:address|bool|string|bytes[0-9]*|u?int[0-9]*)$)[A-Za-z_$][A-Za-z0-9_$]*", re.ASCII)
ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}", re.ASCII)
NUMBER = re.compile(r"0|[1-9][0-9]{0,77}|0x[0-9a-fA-F]{1,64}", re.ASCII)
MAX_AMOUNT = 2**256 - 1


@dataclass(frozen=True)
class Permit:
    """An ERC-2612 permit: an approval that anyone can submit."""

    spender: str
    value: int


def read_contract(typed_data: Mapping[str, Any]) -> str | None:
    """Return the contract that the typed data is for; None unless its hash commits to it and to a chain.

    The hash covers the fields that `types` declares for the domain, not those that `domain` has.
    """
    domain, types = typed_data.get("domain"), typed_data.get("types")
    if not isinstance(domain, Mapping) or not isinstance(types, Mapping):
        return None
    if not all(isinstance(name, str) and STRUCT_NAME.fullmatch(name) for name in types):
        return None
    primary_type = typed_data.get("primaryType")
    if not isinstance(primary_type, str) or primary_type == DOMAIN:
        # Of a domain, nothing else is hashed.
        return None
    expected = [{"name": name, "type": DOMAIN_TYPES[name]} for name in DOMAIN_TYPES if name in domain]
    if domain.keys() - DOMAIN_TYPES.keys() or types.get(DOMAIN, expected) != expected:
        return None
    contract, chain_id = _address(domain.get("verifyingContract")), _number(domain.get("chainId"))
    return None if chain_id is None else contract


def read_permit(typed_data: Mapping[str, Any]) -> Permit | None:
    """Return the permit that the typed data is; None if it is anything but a plain ERC-2612 permit."""
    types, message = typed_data.get("types"), typed_data.get("message")
    if typed_data.get("primaryType") != PERMIT or not isinstance(types, Mapping) or not isinstance(message, Mapping):
        return None
    if types.keys() - {DOMAIN} != {PERMIT} or message.keys() != PERMIT_TYPES.keys():
        return None
    if types[PERMIT] != [{"name": name, "type": type_} for name, type_ in PERMIT_TYPES.items()]:
        return None
    spender, value = _address(message["spender"]), _number(message["value"])
    return None if spender is None or value is None else Permit(spender, value)


def _address(value: Any) -> str | None:
    return to_checksum_address(value) if isinstance(value, str) and ADDRESS.fullmatch(value) else None


def _number(value: Any) -> int | None:
    """Return an integer from a number, its decimal digits or hexadecimal ones after 0x; None if it is neither."""
    if isinstance(value, str) and NUMBER.fullmatch(value):
        value = int(value, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_AMOUNT:
        return None
    return value
