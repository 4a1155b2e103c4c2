"""Reading request bodies: JSON as RFC 8259 has it, and nothing that two readers could read differently."""

import json
import math
import re
from collections.abc import Mapping
from itertools import accumulate
from typing import IO, Any, Self

from django.conf import settings
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

ENDED_EARLY = "the body ended early"
# Far more than any request needs; each value and each level costs time in all that reads them later.
MAX_VALUES = 10_000
MAX_DEPTH = 64
STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
ALL_BUT_BRACKETS = bytes(set(range(256)) - STEPS.keys())
WHITESPACE = b" \t\r\n"
ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class StrictJSONParser(BaseParser):
    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        length = int((parser_context or {})["request"].META.get("CONTENT_LENGTH") or 0)
        if length > settings.MAX_REQUEST_BYTES:
            raise ParseError(f"the body is over {settings.MAX_REQUEST_BYTES} bytes")
        try:
            body = stream.read()
        except OSError:
            raise ParseError(ENDED_EARLY) from None
        # What came of a longer body may look whole.
        if len(body) < length:
            raise ParseError(ENDED_EARLY)
        return loads(body)


class MergePatchParser(StrictJSONParser):
    """Reads a JSON Merge Patch under the name that RFC 7396 has for it."""

    media_type = "application/merge-patch+json"


class WrittenFloat(float):
    """A number with a fraction or an exponent, and its text: a float may be another number."""

    text: str

    def __new__(cls, text: str) -> Self:
        number = super().__new__(cls, text)
        number.text = text
        return number


def loads(body: bytes, max_values: float = MAX_VALUES) -> Any:
    """Decode JSON, refusing what is not UTF-8, repeated keys, NaN, Infinity, lone surrogates and what is too much."""
    check_form(body, max_values)
    try:
        text = body.decode()
        data = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
        if ESCAPED_SURROGATE.search(text):
            json.dumps(data, ensure_ascii=False).encode()
    except UnicodeError:
        raise ParseError("the body is not valid UTF-8 text") from None
    except (ValueError, RecursionError):
        raise ParseError("the body is not valid JSON") from None
    return data


def check_form(body: bytes, max_values: float) -> None:
    """Refuse very many values or deep nesting, at the cost of counting bytes."""
    openers = body.count(b"[") + body.count(b"{")
    if openers <= MAX_DEPTH and openers + body.count(b",") < max_values:
        return
    text = without_escapes(body)
    # A value has at most two strings, itself and its name. Beyond that there is no need to take them apart.
    if text.count(b'"') > 4 * max_values or count_values(outline := without_strings(text)) > max_values:
        raise ParseError(f"the body has more than {max_values} JSON values")
    if depth(outline) > MAX_DEPTH:
        raise ParseError(f"the body is nested more than {MAX_DEPTH} deep")


def without_escapes(body: bytes) -> bytes:
    """Return JSON in which every quote begins or ends a string."""
    return body.replace(b"\\\\", b"").replace(b'\\"', b"")


def without_strings(text: bytes) -> bytes:
    """Return JSON with a digit in the place of each string, and without whitespace."""
    return b"0".join(text.split(b'"')[::2]).translate(None, WHITESPACE)


def count_values(outline: bytes) -> int:
    """Return the number of values in JSON without strings and whitespace."""
    empty = outline.count(b"[]") + outline.count(b"{}")
    return 1 + outline.count(b",") + outline.count(b"[") + outline.count(b"{") - empty


def depth(outline: bytes) -> int:
    """Return how deep arrays and objects stand in each other."""
    brackets = outline.translate(None, ALL_BUT_BRACKETS)
    return max(accumulate(map(STEPS.__getitem__, brackets)), default=0)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ParseError("a key stands twice in one JSON object")
    return members


def _finite(text: str) -> float:
    number = WrittenFloat(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _no_constant(name: str) -> Any:
    raise ValueError(name)
