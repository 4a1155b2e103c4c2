"""The WSGI application: Django's, with no body for HEAD, and the envelope for failures outside its handlers."""

import logging
import os
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "relayer_service.settings")
django_application = get_wsgi_application()

from relayer_service.api import envelope  # noqa: E402  # needs the settings
from relayer_service.api.error_codes import HEADER, ErrorCode  # noqa: E402

logger = logging.getLogger(__name__)

FAILURE_HEADERS = [("Content-Type", "application/json"), (HEADER, ErrorCode.INTERNAL_ERROR)]


def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    try:
        response = django_application(environ, start_response)
        if environ["REQUEST_METHOD"] == "HEAD":
            response.close()
            return []
        return response
    except Exception:
        logger.exception("A request could not be handled")
        status = HTTPStatus.INTERNAL_SERVER_ERROR
        start_response(f"{status.value} {status.phrase}", FAILURE_HEADERS)
        return [envelope.failure_bytes(status)]
