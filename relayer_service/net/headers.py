"""Headers that are not ASCII: the web server passes on their names alone."""

from collections.abc import Mapping
from typing import Any

from django.http.request import HttpHeaders

# Replaces a value that could not be read in WSGI's environ. No readable value equals it: those are Latin-1.
UNREADABLE = "\ufffd"


def unreadable_name(environ: Mapping[str, Any]) -> str | None:
    """Return the name of a header in an environ whose value could not be read; the host is checked by Django."""
    for variable, value in environ.items():
        if value == UNREADABLE and variable != "HTTP_HOST":
            return HttpHeaders.parse_header_name(variable)
    return None
