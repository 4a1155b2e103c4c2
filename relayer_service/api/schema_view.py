"""The view that serves the OpenAPI document."""

import threading
from functools import cache
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.renderers import OpenApiYamlRenderer
from drf_spectacular.views import SpectacularAPIView
from rest_framework.request import Request

_lock = threading.Lock()


class SchemaView(SpectacularAPIView):
    """Serves a cached document: generating it takes a second of CPU time."""

    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        with _lock:
            document = generate(tuple(settings.EXTENSIONS))
        filename = self._get_filename(request, None)  # type: ignore[no-untyped-call]  # it has no types
        return HttpResponse(
            document,
            content_type=f"{OpenApiYamlRenderer.media_type}; charset={OpenApiYamlRenderer.charset}",
            headers={"Content-Disposition": f'inline; filename="{filename}"'},
        )


@cache
def generate(extensions: tuple[str, ...]) -> bytes:
    """Return the document for the enabled extensions, which are the cache key."""
    # Neither class has types.
    generator: Any = SchemaView.generator_class(urlconf=SchemaView.urlconf)
    renderer: Any = OpenApiYamlRenderer()
    return bytes(renderer.render(generator.get_schema(public=True)))
