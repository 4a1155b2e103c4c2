"""The page that asks staff before something is sent, and shows where to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from django.http import HttpRequest
from django.template.response import TemplateResponse

MAX_TARGETS_SHOWN = 20

# A notification's id, its URL, and how many events it gets.
Target = tuple[str, str, int]


def without_user_info(url: str) -> str:
    """Return a URL without what stands before its host: a name and a password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def ask(
    request: HttpRequest,
    model_admin: Any,
    title: str,
    texts: Sequence[str],
    targets: Sequence[Target],
    back: str,
    hidden: Mapping[str, object] | None = None,
) -> TemplateResponse:
    """Return a page whose button posts to the address of the request."""
    context = {
        **model_admin.admin_site.each_context(request),
        "title": title,
        "opts": model_admin.opts,
        "texts": texts,
        "targets": [(name, without_user_info(url), count) for name, url, count in targets[:MAX_TARGETS_SHOWN]],
        "more_targets": max(0, len(targets) - MAX_TARGETS_SHOWN),
        "hidden": hidden or {},
        "back": back,
    }
    return TemplateResponse(request, "admin/notifications/confirmation.html", context)
