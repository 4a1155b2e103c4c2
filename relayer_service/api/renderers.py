"""Renderers and content negotiation."""

from collections.abc import Iterable
from typing import Any

import orjson
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from relayer_service.api import envelope


class JSONRenderer(BaseRenderer):
    """JSON without the envelope."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(self, data: Any, *args: Any, **kwargs: Any) -> bytes:
        return orjson.dumps(data)


class EnvelopeRenderer(JSONRenderer):
    def render(self, data: Any, *args: Any, **kwargs: Any) -> bytes:
        return super().render(envelope.success(data))


class JSONNegotiation(BaseContentNegotiation):
    """Ignores the Accept header: a view has one format."""

    def select_parser(self, request: Request, parsers: Iterable[Any]) -> Any:
        media_type = request.content_type.split(";")[0].strip().lower()
        return next((parser for parser in parsers if parser.media_type == media_type), None)

    def select_renderer(
        self, request: Request, renderers: Iterable[Any], format_suffix: str | None = None
    ) -> tuple[Any, str]:
        renderer = next(iter(renderers))
        return renderer, renderer.media_type
