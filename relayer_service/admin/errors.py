"""The pages for what is refused or missing: they say which permission or what, and lead back.

Paths of the API have an envelope instead, which its middleware makes of any answer.
"""

from http import HTTPStatus
from typing import Any

from django.contrib import admin
from django.contrib.auth import get_permission_codename
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.text import capfirst

# The permission that each of an admin's own views needs; actions name theirs.
NEEDED = {"changelist": "view", "history": "view", "change": "view", "add": "add", "delete": "delete"}


class ObjectNotFound(Http404):
    """There is no object of a model under the key of an address."""

    def __init__(self, opts: Any) -> None:
        super().__init__(f"There is no {opts.verbose_name} at this address. It may have been deleted.")
        self.opts = opts


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    opts = getattr(exception, "opts", None)
    text = str(exception) if opts else f"There is no page at {request.path}."
    return error_page(request, HTTPStatus.NOT_FOUND, "Not found", text, opts)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    model_admin, view = wanted(request)
    if model_admin is None:
        return error_page(request, HTTPStatus.FORBIDDEN, "Not allowed", "You may not open this page.")
    opts = model_admin.opts
    verb = "change" if view == "change" and request.method == "POST" else NEEDED.get(view, "view")
    verbs = [verb] if view in NEEDED else [verb, *needed_by_action(model_admin, view)]
    missing = [shown_permission(verb, opts) for verb in verbs if not request.user.has_perm(permission(verb, opts))]
    missing += getattr(model_admin, "missing_to_add", lambda request: [])(request) if view == "add" else []
    if missing:
        text = f"You need the permission {' and '.join(missing)}. Whoever manages users can grant it."
    elif view in NEEDED:
        text = f"Nobody may {verb} {opts.verbose_name_plural} here."
    else:
        text = "You may view this, and need another permission to do more with it. Whoever manages users can grant it."
    return error_page(request, HTTPStatus.FORBIDDEN, "Not allowed", text, opts)


def needed_by_action(model_admin: Any, view: str) -> list[str]:
    """Return the permissions that a button on the page of an object asks for, without those that have rules."""
    asked = getattr(getattr(model_admin, view, None), "allowed_permissions", None) or []
    return [verb for verb in asked if verb in NEEDED.values() or verb == "change"]


def permission(verb: str, opts: Any) -> str:
    return f"{opts.app_label}.{get_permission_codename(verb, opts)}"


def shown_permission(verb: str, opts: Any) -> str:
    """Return a permission as the pages of users and groups name it, and as programs do."""
    return f"“Can {verb} {opts.verbose_name}” ({permission(verb, opts)})"


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    text = (
        "Nothing was changed: the form came without the cookie that goes with it, or you signed in again since you "
        "opened it. Go back, reload the page and send it again."
    )
    return error_page(request, HTTPStatus.FORBIDDEN, "The form has expired", text)


def wanted(request: HttpRequest) -> tuple[Any, str]:
    """Return the admin and the name of the view that a request was for, if it was for one."""
    name = (request.resolver_match and request.resolver_match.url_name) or ""
    for model_admin in admin.site._registry.values():
        prefix = f"{model_admin.opts.app_label}_{model_admin.opts.model_name}_"
        if name.startswith(prefix):
            return model_admin, name.removeprefix(prefix)
    return None, ""


def error_page(request: HttpRequest, status: HTTPStatus, title: str, text: str, opts: Any = None) -> HttpResponse:
    """Return a page of the admin for staff, and one without the admin's menu for others."""
    user = getattr(request, "user", None)
    if user is None:
        return HttpResponse(text, status=status, content_type="text/plain; charset=utf-8")
    links = [("Overview", reverse("admin:index"))]
    if opts and user.has_perm(permission("view", opts)):
        url = reverse(f"admin:{opts.app_label}_{opts.model_name}_changelist")
        links.insert(0, (capfirst(opts.verbose_name_plural), url))
    context = {**admin.site.each_context(request), "title": title, "text": text, "links": links, "status": int(status)}
    template = "admin/error.html" if user.is_active and user.is_staff else "admin/error_signed_out.html"
    return render(request, template, context, status=status)
