"""The OpenAPI document as it is served."""

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
    """Serves cached bytes, as generating them takes a second of processor time."""

    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        # One thread generates it, the others wait.
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
    """Return the document with the paths of these extensions, which are those that are on."""
    # Both have no types.
    generator: Any = SchemaView.generator_class(urlconf=SchemaView.urlconf)
    renderer: Any = OpenApiYamlRenderer()
    return bytes(renderer.render(generator.get_schema(public=True)))
