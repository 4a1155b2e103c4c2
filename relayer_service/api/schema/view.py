"""The view that serves the OpenAPI document, as YAML or as JSON."""

import threading
from collections.abc import Iterable
from functools import cache
from typing import Any

from django.conf import settings
from django.http import Http404, HttpResponse
from drf_spectacular.views import SpectacularAPIView
from rest_framework.exceptions import NotAcceptable
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import Request

_lock = threading.Lock()


class SchemaNegotiation(DefaultContentNegotiation):
    """Selects JSON if the client asks for it, else YAML, also where neither is acceptable."""

    def select_renderer(
        self, request: Request, renderers: Iterable[Any], format_suffix: str | None = None
    ) -> tuple[Any, str]:
        inherited: Any = super().select_renderer
        choices = list(renderers)
        try:
            renderer, media_type = inherited(request, choices, format_suffix)
        except (Http404, NotAcceptable):
            return choices[0], choices[0].media_type
        return renderer, media_type


class SchemaView(SpectacularAPIView):
    """Serves a cached document: generating it takes a second of CPU time."""

    # Other views have one format.
    content_negotiation_class = SchemaNegotiation

    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        renderer: Any = request.accepted_renderer
        with _lock:
            document = generate(tuple(settings.EXTENSIONS), renderer.format)
        filename = self._get_filename(request, None)  # type: ignore[no-untyped-call]  # it has no types
        return HttpResponse(
            document,
            content_type="; charset=".join(filter(None, [renderer.media_type, renderer.charset])),
            headers={"Content-Disposition": f'inline; filename="{filename}"'},
        )


@cache
def generate(extensions: tuple[str, ...], document_format: str) -> bytes:
    """Return the document for the enabled extensions, which are a part of the cache key."""
    # These classes have no types.
    generator: Any = SchemaView.generator_class(urlconf=SchemaView.urlconf)
    renderer: Any = next(each for each in SchemaView.renderer_classes if each.format == document_format)()
    return bytes(renderer.render(generator.get_schema(public=True)))
