"""Reading request bodies: JSON as RFC 8259 has it, and nothing that two readers could read differently."""

import json
import math
import re
from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

ENDED_EARLY = "the body ended early"
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


def loads(body: bytes) -> Any:
    """Decode JSON, refusing what is not UTF-8, repeated keys, NaN, Infinity and lone surrogates."""
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


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ParseError("a key stands twice in one JSON object")
    return members


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _no_constant(name: str) -> Any:
    raise ValueError(name)
