"""Parsers of request bodies: strict JSON (RFC 8259), without anything that parsers interpret differently."""

import json
import math
import re
from collections.abc import Mapping
from itertools import accumulate
from typing import IO, Any, Self

from django.conf import settings
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

from relayer_service.api.error_codes import ErrorCode

ENDED_EARLY = "the body ended early"
# Far more than any request needs; every value and level costs time later.
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
            raise ParseError(f"the body is over {settings.MAX_REQUEST_BYTES} bytes", ErrorCode.BODY_TOO_LARGE)
        try:
            body = stream.read()
        except OSError:
            raise ParseError(ENDED_EARLY, ErrorCode.INCOMPLETE_BODY) from None
        # A truncated body can be valid JSON.
        if len(body) < length:
            raise ParseError(ENDED_EARLY, ErrorCode.INCOMPLETE_BODY)
        return loads(body)


class MergePatchParser(StrictJSONParser):
    media_type = "application/merge-patch+json"


class WrittenFloat(float):
    """A finite number with a fraction or an exponent that keeps its text, as a float is not exact."""

    text: str

    def __new__(cls, text: str) -> Self:
        number = super().__new__(cls, text)
        if not math.isfinite(number):
            raise ValueError(text)
        number.text = text
        return number

    @property
    def has_exponent(self) -> bool:
        return "e" in self.text.lower()


def loads(body: bytes, max_values: float = MAX_VALUES) -> Any:
    """Decode JSON; reject invalid UTF-8, duplicate keys, NaN, Infinity, lone surrogates and excessive size."""
    check_size(body, max_values)
    try:
        text = body.decode()
        data = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=WrittenFloat)
        if ESCAPED_SURROGATE.search(text):
            json.dumps(data, ensure_ascii=False).encode()
    except UnicodeError:
        raise ParseError("the body is not valid UTF-8 text") from None
    except (ValueError, RecursionError):
        raise ParseError("the body is not valid JSON") from None
    return data


def check_size(body: bytes, max_values: float) -> None:
    """Reject too many values or too deep nesting, at the cost of counting bytes."""
    openers = body.count(b"[") + body.count(b"{")
    if openers <= MAX_DEPTH and openers + body.count(b",") < max_values:
        return
    text = without_escapes(body)
    # A value has at most two strings, itself and its key, with four quotes.
    if text.count(b'"') > 4 * max_values or count_values(outline := without_strings(text)) > max_values:
        raise ParseError(f"the body has more than {max_values} JSON values", ErrorCode.BODY_TOO_LARGE)
    if depth(outline) > MAX_DEPTH:
        raise ParseError(f"the body is nested more than {MAX_DEPTH} levels deep", ErrorCode.BODY_TOO_LARGE)


def without_escapes(body: bytes) -> bytes:
    """Return JSON in which every quote starts or ends a string."""
    return body.replace(b"\\\\", b"").replace(b'\\"', b"")


def without_strings(text: bytes) -> bytes:
    """Return JSON without whitespace and with a digit in place of each string."""
    return b"0".join(text.split(b'"')[::2]).translate(None, WHITESPACE)


def count_values(outline: bytes) -> int:
    empty = outline.count(b"[]") + outline.count(b"{}")
    return 1 + outline.count(b",") + outline.count(b"[") + outline.count(b"{") - empty


def depth(outline: bytes) -> int:
    brackets = outline.translate(None, ALL_BUT_BRACKETS)
    return max(accumulate(map(STEPS.__getitem__, brackets)), default=0)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ParseError("duplicate key", ErrorCode.DUPLICATE)
    return members


def _no_constant(name: str) -> Any:
    raise ValueError(name)
