"""The data of a contract call, from the signature of a function and its arguments as a person writes them."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from eth_abi import grammar
from eth_abi.abi import encode
from eth_abi.exceptions import ABITypeError, EncodingError, ParseError
from eth_abi.grammar import BasicType, TupleType, parse
from eth_utils.address import is_address, to_checksum_address
from eth_utils.crypto import keccak

# A type of eth_abi, which has no annotations.
ABIType = Any

FUNCTION = re.compile(r"(?:function\s+)?(?P<name>[A-Za-z_$][\w$]*)\s*\((?P<types>.*)\)\s*", re.A | re.S)
# What follows the parameters in Solidity, such as `external view returns (bool)`.
AFTERWARDS = re.compile(r"\)(?:external|public|payable|view|pure|;|\s)*+(?:returns\s*+\(.*\)[\s;]*+)?+$", re.A | re.S)
MAX_LENGTH = 1_000
INTEGER = re.compile(r"-?[0-9]{1,78}|0[xX][0-9a-fA-F]{1,64}", re.A)
BYTES = re.compile(r"0[xX](?:[0-9a-fA-F]{2})*", re.A)
BOOLEANS = {"true": True, "false": False}
EXAMPLE = "transfer(address,uint256)"


class InvalidCall(ValueError):
    """A function or its arguments cannot be encoded; `field` is `function` or `arguments`."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


def encode_call(function: str, arguments: str) -> bytes:
    """Return the selector and encoded arguments: one per line, or a JSON array."""
    name, types = parse_function(function)
    values = [_value(kind, value, position) for position, (kind, value) in enumerate(_pairs(types, arguments), 1)]
    names = [kind.to_type_str() for kind in types]
    try:
        encoded = encode(names, values)
    except (EncodingError, OverflowError, ValueError, TypeError):
        raise InvalidCall("arguments", f"Not valid for {name}({','.join(names)}).") from None
    return bytes(keccak(text=f"{name}({','.join(names)})")[:4] + encoded)


def parse_function(text: str) -> tuple[str, list[ABIType]]:
    """Return the name and parameter types of a function, which may be written as in Solidity, with names."""
    match = FUNCTION.fullmatch(AFTERWARDS.sub(")", text.strip())) if len(text) <= MAX_LENGTH else None
    if match is None:
        raise InvalidCall("function", f"Enter a function with its parameter types, for example {EXAMPLE}.")
    return match["name"], [_type(each) for each in _split(match["types"])]


def _type(text: str) -> ABIType:
    """Return the type of a parameter without its name."""
    text = text.strip()
    try:
        if text.startswith(("(", "tuple(")):
            end = _end_of_tuple(text)
            members = [_type(each).to_type_str() for each in _split(text[text.index("(") + 1 : end])]
            suffix = re.match(r"(?:\[[0-9]*\])*", text[end + 1 :])
            kind = parse(f"({','.join(members)}){suffix[0] if suffix else ''}")
        else:
            first = text.split()[0] if text else ""
            # Its alias is another type, which would change the selector.
            kind = parse("" if first.startswith("function") else grammar.normalize(first))  # type: ignore[no-untyped-call]
        kind.validate()
    except (ParseError, ABITypeError, ValueError):
        raise InvalidCall("function", f"Unknown parameter type '{text[:60]}'.") from None
    if not isinstance(kind, (BasicType, TupleType)) or not _is_supported(kind):
        raise InvalidCall("function", f"Unknown parameter type '{text[:60]}'.")
    return kind


def _is_supported(kind: ABIType) -> bool:
    if isinstance(kind, TupleType):
        return all(_is_supported(each) for each in kind.components)
    return isinstance(kind, BasicType) and (
        kind.base in READERS and (kind.base not in {"uint", "int"} or kind.sub is not None)
    )


def _split(text: str) -> Iterator[str]:
    """Yield what is between the commas outside of parentheses."""
    depth, start = 0, 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            yield text[start:position]
            start = position + 1
    if text.strip():
        yield text[start:]


def _end_of_tuple(text: str) -> int:
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == ")" and not depth:
            return position
    raise ValueError


def _pairs(types: Sequence[ABIType], text: str) -> Iterator[tuple[ABIType, Any]]:
    values: list[Any] = [line for line in map(str.strip, text.splitlines()) if line]
    takes_array = len(types) == 1 and (types[0].is_array or isinstance(types[0], TupleType))
    if text.strip().startswith("[") and not takes_array:
        # Otherwise it is a line that is an array, followed by others.
        with suppress(ValueError, RecursionError):
            values = json.loads(text)
    if len(values) != len(types):
        needed = f"{len(types)} argument{'' if len(types) == 1 else 's'}"
        raise InvalidCall("arguments", f"The function takes {needed}, one per line; {len(values)} given.")
    return zip(types, values, strict=True)


def _value(kind: ABIType, value: Any, position: int) -> Any:
    try:
        return _read(kind, value)
    except ValueError as error:
        fault = str(error) or "not valid"
        raise InvalidCall("arguments", f"Argument {position} ({kind.to_type_str()}): {fault}.") from None


def _read(kind: ABIType, value: Any) -> Any:
    if kind.is_array or isinstance(kind, TupleType):
        found = value
        with suppress(ValueError, RecursionError):
            found = json.loads(value) if isinstance(value, str) else value
        if not isinstance(found, list):
            raise ValueError("a JSON array is required")
        if kind.is_array:
            return [_read(kind.item_type, each) for each in found]
        if len(found) != len(kind.components):
            raise ValueError(f"an array of {len(kind.components)} values is required")
        return [_read(each, item) for each, item in zip(kind.components, found, strict=True)]
    assert isinstance(kind, BasicType)
    return READERS[kind.base](kind, value)


def _integer(kind: BasicType, value: Any) -> int:
    if isinstance(value, str) and INTEGER.fullmatch(value):
        value = int(value, 16 if value[1:2] in {"x", "X"} else 10)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError("a whole number is required")
    low, high = (0, 2**kind.sub) if kind.base == "uint" else (-(2 ** (kind.sub - 1)), 2 ** (kind.sub - 1))
    if not low <= value < high:
        lowest = f"-2^{kind.sub - 1}" if low else "0"
        raise ValueError(f"a number from {lowest} to 2^{high.bit_length() - 1} - 1 is required")
    return value


def _address(kind: BasicType, value: Any) -> str:
    if not isinstance(value, str) or not value.startswith("0x") or not is_address(value):
        raise ValueError("an EVM address is required")
    return str(to_checksum_address(value))


def _boolean(kind: BasicType, value: Any) -> bool:
    found = BOOLEANS.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise ValueError("true or false is required")
    return found


def _bytes(kind: BasicType, value: Any) -> bytes:
    if not isinstance(value, str) or not BYTES.fullmatch(value):
        raise ValueError("0x and an even number of hexadecimal digits are required")
    found = bytes.fromhex(value[2:])
    if kind.sub is not None and len(found) != kind.sub:
        raise ValueError(f"{kind.sub} bytes are required")
    return found


def _string(kind: BasicType, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("text is required")
    # A line is the text itself, unless it is quoted as in JSON.
    return str(json.loads(value)) if re.fullmatch(r'"(?:[^"\\]|\\.)*"', value) else value


READERS: dict[str, Callable[[BasicType, Any], Any]] = {
    "uint": _integer,
    "int": _integer,
    "address": _address,
    "bool": _boolean,
    "bytes": _bytes,
    "string": _string,
}
