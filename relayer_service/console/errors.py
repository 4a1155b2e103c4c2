"""The admin's error pages, which name the missing permission or object and link back."""

from http import HTTPStatus
from typing import Any

from django.contrib import admin
from django.contrib.auth import get_permission_codename
from django.core.exceptions import DisallowedHost
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.text import capfirst

from relayer_service.roles import ROLES

# The permission that each of Django's admin views requires; actions declare theirs.
NEEDED = {"changelist": "view", "history": "view", "change": "view", "add": "add", "delete": "delete"}


NOT_ALLOWED_HOST = "The service does not serve this host name. Add it to ALLOWED_HOSTS."
NOT_ACCEPTED = "The URL or the form has a filter or a value that this page does not accept. Nothing was changed."
VERBAL_NOUNS = {"view": "Viewing", "change": "Changing", "add": "Adding", "delete": "Deleting"}


class ObjectNotFound(Http404):
    def __init__(self, opts: Any) -> None:
        super().__init__(f"There is no {opts.verbose_name} at this URL. It may have been deleted.")
        self.opts = opts


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    text = NOT_ALLOWED_HOST if isinstance(exception, DisallowedHost) else NOT_ACCEPTED
    return error_page(request, HTTPStatus.BAD_REQUEST, "Bad request", text)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    opts = getattr(exception, "opts", None)
    text = str(exception) if opts else f"There is no page at {request.path}."
    return error_page(request, HTTPStatus.NOT_FOUND, "Not found", text, opts)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    model_admin, view = requested_view(request)
    if model_admin is None:
        return error_page(
            request, HTTPStatus.FORBIDDEN, "Not allowed", "You do not have permission to view this page."
        )
    opts = model_admin.opts
    verb = "change" if view == "change" and request.method == "POST" else NEEDED.get(view, "view")
    declared = getattr(declared_view(model_admin, view), "allowed_permissions", None) or []
    # Others than these are decided by a `has_..._permission` method.
    verbs = [verb, *(each for each in declared if each in VERBAL_NOUNS or named(each, opts))]
    lacking = [verb for verb in verbs if not request.user.has_perm(permission(verb, opts))]
    role = least_role({permission(verb, opts) for verb in lacking})
    missing = [shown_permission(verb, opts) for verb in lacking]
    missing += getattr(model_admin, "missing_to_add", lambda request: [])(request) if view == "add" else []
    if missing:
        whom = f"an owner for the role {role}, or a superuser to grant it" if role else "a superuser to grant it"
        text = f"You need the permission {' and '.join(missing)}. Ask {whom}."
    elif view in NEEDED:
        text = f"{VERBAL_NOUNS[verb]} {opts.verbose_name_plural} is not allowed in the admin."
    else:
        text = "You have permission to view this object, but not to perform this action. Ask a superuser to grant it."
    return error_page(request, HTTPStatus.FORBIDDEN, "Not allowed", text, opts)


def least_role(permissions: set[str]) -> str:
    """Return the first role with these permissions; "" if none has them."""
    return next((name for name, role in ROLES.items() if permissions <= role.permissions), "")


def permission(verb: str, opts: Any) -> str:
    return f"{opts.app_label}.{get_permission_codename(verb, opts)}"


def named(verb: str, opts: Any) -> str:
    """Return the name of a permission that the model declares, or an empty text."""
    return str(dict(opts.permissions).get(get_permission_codename(verb, opts), ""))


def shown_permission(verb: str, opts: Any) -> str:
    return f"“{named(verb, opts) or f'Can {verb} {opts.verbose_name}'}” ({permission(verb, opts)})"


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    text = (
        "Nothing was changed: the form was sent without its cookie, or you have signed in again since you opened it. "
        "Go back, reload the page and try again."
    )
    return error_page(request, HTTPStatus.FORBIDDEN, "The form has expired", text)


def requested_view(request: HttpRequest) -> tuple[Any, str]:
    """Return the model admin and the name of the view that a request resolves to, if any."""
    name = (request.resolver_match and request.resolver_match.url_name) or ""
    for model_admin in admin.site._registry.values():
        prefix = f"{model_admin.opts.app_label}_{model_admin.opts.model_name}_"
        if name.startswith(prefix):
            return model_admin, name.removeprefix(prefix)
    return None, ""


def declared_view(model_admin: Any, view: str) -> Any:
    """Return the action or the view of a panel with this name, which declares the permissions that it requires."""
    owners = (each for each in getattr(model_admin, "panels", []) if view in each.views)
    return getattr(next(owners, model_admin), view, None)


def error_page(request: HttpRequest, status: HTTPStatus, title: str, text: str, opts: Any = None) -> HttpResponse:
    user = getattr(request, "user", None)
    if user is None:
        return HttpResponse(text, status=status, content_type="text/plain; charset=utf-8")
    links = [("Overview", reverse("admin:index"))]
    if opts and user.has_perm(permission("view", opts)):
        url = reverse(f"admin:{opts.app_label}_{opts.model_name}_changelist")
        links.insert(0, (capfirst(opts.verbose_name_plural), url))
    context = {**admin.site.each_context(request), "title": title, "text": text, "links": links, "status": int(status)}
    template = "admin/error.html" if admin.site.has_permission(request) else "admin/error_signed_out.html"
    return render(request, template, context, status=status)
