"""The WSGI application: Django's, with chunked bodies, HEAD, and an envelope for its own failures."""

import io
import logging
import os
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "relayer_service.settings")
django_application = get_wsgi_application()

from relayer_service.api import envelope  # noqa: E402  # needs the settings

logger = logging.getLogger(__name__)


def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    read_chunked_body(environ)
    try:
        response = django_application(environ, start_response)
        if environ["REQUEST_METHOD"] == "HEAD":
            response.close()
            return []
        return response
    except Exception:
        logger.exception("Django could not take the request")
        status = HTTPStatus.INTERNAL_SERVER_ERROR
        start_response(f"{status.value} {status.phrase}", [("Content-Type", "application/json")])
        return [envelope.failure_bytes(status)]


def read_chunked_body(environ: dict[str, Any]) -> None:
    """Read a chunked body, up to one byte past the limit, and set the length that Django needs.

    The server answers malformed chunks.
    """
    if environ.get("HTTP_TRANSFER_ENCODING", "").lower() != "chunked" or not environ.get("wsgi.input_terminated"):
        return
    body = environ["wsgi.input"].read(settings.MAX_REQUEST_BYTES + 1)
    environ["wsgi.input"] = io.BytesIO(body)
    environ["CONTENT_LENGTH"] = str(len(body))
