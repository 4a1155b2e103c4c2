"""Typed data (EIP-712): its digest, from the JSON that wallets take.

Stricter than most wallets. A field that is missing, null or unknown is refused rather than encoded as zero or ignored,
and a value must fit its type exactly: otherwise two readers could take the same JSON for different data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from eth_utils.address import is_checksum_address, is_checksum_formatted_address, to_checksum_address
from eth_utils.crypto import keccak

from chain.messages import typed_data_digest

DOMAIN = "EIP712Domain"
# In the order of the EIP, in which a derived domain type has them.
DOMAIN_FIELDS = {
    "name": "string",
    "version": "string",
    "chainId": "uint256",
    "verifyingContract": "address",
    "salt": "bytes32",
}
# A type is hashed with all types that it refers to, so these bound the cost of a small body.
MAX_TYPES = 32
MAX_FIELDS = 64
MAX_NAME_LENGTH = 64
# Trees of orders have many dimensions.
MAX_DIMENSIONS = 24
MAX_DEPTH = 32
MAX_FAULTS = 50

IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*", re.ASCII)
TYPE = re.compile(r"(?P<base>[A-Za-z_$][A-Za-z0-9_$]*)(?P<dimensions>(?:\[(?:[1-9][0-9]{0,4})?\])*)", re.ASCII)
# Names of built-in types, and names that look like one, such as `uint` or `bytes33`.
BUILT_IN = re.compile(r"(u?int|bytes)[0-9]*|bool|string|address|u?fixed([0-9]+x[0-9]+)?", re.ASCII)
INTEGER = re.compile(r"0|-?[1-9][0-9]{0,77}|0x[0-9a-fA-F]{1,64}", re.ASCII)
HEX = re.compile(r"0x((?:[0-9a-fA-F]{2})*)", re.ASCII)
ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}", re.ASCII)

REQUIRED = "this field is required"
UNKNOWN_FIELD = "unknown field"
OBJECT = "an object is required"

# Of names and indexes.
Path = tuple[str | int, ...]
Faults = list[tuple[Path, str]]
# The 32 bytes of a value, and the value in its canonical form.
Encoded = tuple[bytes, Any]

NOTHING: Encoded = (bytes(32), None)


class InvalidTypedData(Exception):
    """The JSON is not typed data. Faults have no values of it, but names."""

    def __init__(self, faults: Faults) -> None:
        super().__init__(f"{len(faults)} faults")
        self.faults = faults[:MAX_FAULTS]


class Unfit(Exception):
    """A value does not fit its type; the message says what does."""


@dataclass(frozen=True)
class TypedData:
    """Valid typed data with canonical values: integers, addresses with checksum, bytes in lower-case hexadecimal."""

    types: Mapping[str, Mapping[str, str]]
    primary_type: str
    domain: Mapping[str, Any]
    message: Mapping[str, Any]
    domain_separator: bytes
    message_hash: bytes

    @property
    def digest(self) -> bytes:
        return typed_data_digest(self.domain_separator, self.message_hash)

    @property
    def chain_id(self) -> int | None:
        return self.domain.get("chainId")

    def as_json(self) -> dict[str, Any]:
        """Return it under the names of EIP-712, with the type of the domain."""
        types = {
            name: [{"name": field, "type": kind} for field, kind in fields.items()]
            for name, fields in self.types.items()
        }
        return {
            "types": types,
            "primaryType": self.primary_type,
            "domain": dict(self.domain),
            "message": dict(self.message),
        }


def parse(*, types: Any, domain: Any, message: Any, primary_type: Any = None) -> TypedData:
    """Return typed data; raise `InvalidTypedData` with every fault.

    Without a primary type, it is the only one that no other type refers to. The type of the domain may be omitted: it
    then has the fields of the domain.
    """
    faults: Faults = []
    found = _types(types, faults)
    domain_type = _domain_type(found.pop(DOMAIN, None), domain, faults)
    if faults:
        raise InvalidTypedData(faults)
    schema = Schema({**found, DOMAIN: domain_type})
    faults += schema.unknown_references()
    primary = _primary_type(schema, primary_type, faults)
    if faults:
        raise InvalidTypedData(faults)
    encoder = Encoder(schema, faults)
    domain_separator, domain = encoder.struct(DOMAIN, domain, ("domain",))
    message_hash, message = encoder.struct(primary, message, ("message",))
    if faults:
        raise InvalidTypedData(faults)
    return TypedData(schema.types, primary, domain, message, domain_separator, message_hash)


def _types(types: Any, faults: Faults) -> dict[str, dict[str, str]]:
    """Return, by struct, the type of each field by name."""
    if not isinstance(types, dict):
        faults.append((("types",), OBJECT))
        return {}
    if len(types) > MAX_TYPES:
        faults.append((("types",), f"at most {MAX_TYPES} types are allowed"))
        return {}
    found = {}
    for name, fields in types.items():
        path = ("types", name)
        if not _is_identifier(name) or BUILT_IN.fullmatch(name):
            faults.append((path, "is not a valid name of a struct"))
        elif not isinstance(fields, list):
            faults.append((path, "a list of fields is required"))
        elif len(fields) > MAX_FIELDS:
            faults.append((path, f"at most {MAX_FIELDS} fields are allowed"))
        else:
            found[name] = _fields(fields, path, faults)
    return found


def _fields(fields: list[Any], path: Path, faults: Faults) -> dict[str, str]:
    found: dict[str, str] = {}
    for index, field in enumerate(fields):
        place = (*path, index)
        if not isinstance(field, dict) or field.keys() != {"name", "type"}:
            faults.append((place, "an object with name and type is required"))
            continue
        name, kind = field["name"], field["type"]
        if not _is_identifier(name):
            faults.append(((*place, "name"), "is not a valid name"))
        elif name in found:
            faults.append(((*place, "name"), "is given more than once"))
        elif not _is_type(kind):
            faults.append(((*place, "type"), "is not a valid type"))
        else:
            found[name] = kind
    return found


def _is_identifier(name: Any) -> bool:
    return isinstance(name, str) and len(name) <= MAX_NAME_LENGTH and IDENTIFIER.fullmatch(name) is not None


def _is_type(kind: Any) -> bool:
    match = TYPE.fullmatch(kind) if isinstance(kind, str) else None
    if match is None or len(match["base"]) > MAX_NAME_LENGTH or match["dimensions"].count("[") > MAX_DIMENSIONS:
        return False
    # Without aliases: the EIP has no `uint` and no `int`.
    return match["base"] in ENCODINGS or not BUILT_IN.fullmatch(match["base"])


def _domain_type(given: dict[str, str] | None, domain: Any, faults: Faults) -> dict[str, str]:
    """Return the fields of the domain's type: as given, or else those that the domain has."""
    if not isinstance(domain, dict):
        faults.append((("domain",), OBJECT))
        return {}
    if given is None:
        given = {name: kind for name, kind in DOMAIN_FIELDS.items() if name in domain}
    if list(given.items()) != [field for field in DOMAIN_FIELDS.items() if field in given.items()]:
        # Libraries read others differently, and a chain ID of another type would not be compared with the relayer's.
        fault = f"can have only these fields, in this order: {_listed(DOMAIN_FIELDS)}"
        faults.append((("types", DOMAIN), fault))
    if not given:
        faults.append((("domain",), f"at least one of these fields is required: {', '.join(DOMAIN_FIELDS)}"))
    return given


def _listed(fields: Mapping[str, str]) -> str:
    return ", ".join(f"{kind} {name}" for name, kind in fields.items())


def _primary_type(schema: Schema, given: Any, faults: Faults) -> str:
    structs = schema.types.keys() - {DOMAIN}
    if given is not None:
        if not isinstance(given, str) or given not in structs:
            faults.append((("primary_type",), "must be one of the types, other than EIP712Domain"))
        return str(given)
    roots = sorted(structs - schema.referenced())
    if len(roots) != 1:
        faults.append((("primary_type",), "this field is required: the types do not determine it"))
        return ""
    return roots[0]


class Schema:
    """The structs of typed data, the domain's included."""

    def __init__(self, types: Mapping[str, Mapping[str, str]]) -> None:
        self.types = types
        self._hashes: dict[str, bytes] = {}

    def unknown_references(self) -> Faults:
        return [
            (("types", name, index, "type"), "is neither a built-in type nor one of the types")
            for name, fields in self.types.items()
            for index, kind in enumerate(fields.values())
            if _base(kind) not in ENCODINGS and _base(kind) not in self.types
        ]

    def referenced(self) -> set[str]:
        """Return the structs that another one, which is not the domain's, has as a field."""
        return {
            _base(kind)
            for name, fields in self.types.items()
            for kind in fields.values()
            if name not in {DOMAIN, _base(kind)}
        }

    def type_hash(self, name: str) -> bytes:
        if name not in self._hashes:
            self._hashes[name] = keccak(text=self.encode_type(name))
        return self._hashes[name]

    def encode_type(self, name: str) -> str:
        """Return a struct's type in text, followed by those that it refers to, sorted by name."""
        others = sorted(self._dependencies(name) - {name})
        members = {each: (f"{kind} {field}" for field, kind in self.types[each].items()) for each in (name, *others)}
        return "".join(f"{each}({','.join(parts)})" for each, parts in members.items())

    def _dependencies(self, name: str) -> set[str]:
        found, left = {name}, [name]
        while left:
            bases = {_base(kind) for kind in self.types[left.pop()].values()} & self.types.keys()
            left += bases - found
            found |= bases
        return found


def _base(kind: str) -> str:
    return kind.partition("[")[0]


class Encoder:
    """Encodes values, and collects the faults of all."""

    def __init__(self, schema: Schema, faults: Faults) -> None:
        self.schema, self.faults = schema, faults

    def struct(self, name: str, value: Any, path: Path) -> Encoded:
        """Return the hash of a struct."""
        if not isinstance(value, dict):
            return self._fault(path, OBJECT)
        fields = self.schema.types[name]
        for unknown in (each for each in value if each not in fields):
            self._fault((*path, unknown), UNKNOWN_FIELD)
        parts, canonical = [self.schema.type_hash(name)], {}
        for field, kind in fields.items():
            place = (*path, field)
            encoded = self.value(kind, value[field], place) if field in value else self._fault(place, REQUIRED)
            parts.append(encoded[0])
            canonical[field] = encoded[1]
        return keccak(b"".join(parts)), canonical

    def value(self, kind: str, value: Any, path: Path) -> Encoded:
        if len(path) > MAX_DEPTH:
            return self._fault(path, f"at most {MAX_DEPTH} levels are allowed")
        if kind.endswith("]"):
            return self._array(kind, value, path)
        if kind not in ENCODINGS:
            return self.struct(kind, value, path)
        try:
            return ENCODINGS[kind](value)
        except Unfit as reason:
            return self._fault(path, str(reason))

    def _array(self, kind: str, value: Any, path: Path) -> Encoded:
        # The last dimension is the outermost.
        element, _, length = kind.removesuffix("]").rpartition("[")
        if not isinstance(value, list):
            return self._fault(path, "a list is required")
        if length and len(value) != int(length):
            return self._fault(path, f"a list of {length} values is required")
        encoded = [self.value(element, each, (*path, index)) for index, each in enumerate(value)]
        return keccak(b"".join(part for part, _ in encoded)), [canonical for _, canonical in encoded]

    def _fault(self, path: Path, text: str) -> Encoded:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append((path, text))
        return NOTHING


def _integer(bits: int, is_signed: bool) -> Callable[[Any], Encoded]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)

    def encode(value: Any) -> Encoded:
        if isinstance(value, str) and INTEGER.fullmatch(value):
            value = int(value, 16 if value.startswith("0x") else 10)
        # In Python, True is an integer.
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            name = f"{'' if is_signed else 'u'}int{bits}"
            raise Unfit(f"a whole number in the range of {name} is required, or a string with one")
        return (value % (1 << 256)).to_bytes(32), value

    return encode


def _bytes(length: int | None) -> Callable[[Any], Encoded]:
    expected = "bytes are" if length is None else "1 byte is" if length == 1 else f"{length} bytes are"

    def encode(value: Any) -> Encoded:
        match = HEX.fullmatch(value) if isinstance(value, str) else None
        content = bytes.fromhex(match[1]) if match else b""
        if match is None or length not in {None, len(content)}:
            raise Unfit(f"{expected} required, in hexadecimal with 0x")
        encoded = keccak(content) if length is None else content.ljust(32, b"\0")
        return encoded, f"0x{content.hex()}"

    return encode


def _string(value: Any) -> Encoded:
    if not isinstance(value, str):
        raise Unfit("a string is required")
    return keccak(value.encode()), value


def _bool(value: Any) -> Encoded:
    if not isinstance(value, bool):
        raise Unfit("true or false is required")
    return value.to_bytes(32), value


def _address(value: Any) -> Encoded:
    if not isinstance(value, str) or not ADDRESS.fullmatch(value):
        raise Unfit("an EVM address is required: 0x and 40 hexadecimal digits")
    if is_checksum_formatted_address(value) and not is_checksum_address(value):
        raise Unfit("invalid checksum: a character of this address is mistyped")
    return bytes(12) + bytes.fromhex(value[2:]), str(to_checksum_address(value))


# By built-in type.
ENCODINGS: dict[str, Callable[[Any], Encoded]] = {
    "string": _string,
    "bytes": _bytes(None),
    "bool": _bool,
    "address": _address,
    **{f"bytes{length}": _bytes(length) for length in range(1, 33)},
    **{f"uint{bits}": _integer(bits, is_signed=False) for bits in range(8, 257, 8)},
    **{f"int{bits}": _integer(bits, is_signed=True) for bits in range(8, 257, 8)},
}
