"""JSON of the API to typed results, and Python values to JSON."""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

Result = TypeVar("Result")
Reader = Callable[[Any], Any]


def to_json(body: Any) -> bytes:
    """Return the bytes of a body: bytes become hexadecimal, times RFC 3339, decimals strings."""
    return json.dumps(body, default=_to_string, separators=(",", ":")).encode()


def _to_string(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        return f"0x{value.hex()}"
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"A time without a time zone: {value.isoformat()}. Use datetime.now(UTC).")
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    raise TypeError(f"{type(value).__name__} cannot be sent as JSON.")


def decode(kind: type[Result], value: Any) -> Result:
    """Return JSON as an instance of a result type. Unknown fields are ignored: the service may add some."""
    reader: Any = _reader
    result: Result = reader(kind)(value)
    return result


@cache
def _reader(kind: Any) -> Reader:
    """Return the function that reads JSON as a type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        (inner,) = (_reader(each) for each in arguments if each is not NoneType)
        return lambda value: None if value is None else inner(value)
    if origin is tuple:
        item = _reader(arguments[0])
        return lambda value: tuple(item(each) for each in value)
    if is_dataclass(kind):
        return _dataclass_reader(kind)
    readers: dict[Any, Reader] = {int: int, Decimal: Decimal, datetime: datetime.fromisoformat}
    return readers.get(kind, _unchanged)


def _dataclass_reader(kind: Any) -> Reader:
    # Built at the first value, as types may refer to each other.
    hints = get_type_hints(kind)
    names = {field.metadata.get("name", field.name): field.name for field in fields(kind)}

    def read(value: Mapping[str, Any]) -> Any:
        known = ((names[name], each) for name, each in value.items() if name in names)
        return kind(**{name: _reader(hints[name])(each) for name, each in known})

    return read


def _unchanged(value: Any) -> Any:
    return value


def query_string(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return the query parameters that are set."""
    found = {name: value for name, value in parameters.items() if value is not None}
    return {name: _parameter(value) for name, value in found.items()}


def _parameter(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else str(value) if isinstance(value, int) else _to_string(value)
