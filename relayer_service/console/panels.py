"""Panels above the form of an object, which an app adds to the pages of its own models or of another app's.

An app declares its panels in its `AppConfig`: `admin_panels = {"relayers.Relayer": ["rpc.console.panels.Calls"]}`.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django import forms
from django.apps import apps
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.module_loading import import_string


class Panel(metaclass=forms.MediaDefiningClass):
    """A template with its context and views; `class Media` adds scripts and style sheets."""

    template: str
    media: forms.Media
    # On a page with tabs, the one that has it.
    tab = "general"
    # Names of methods that are object views; each name is also the path below the object's URL.
    views: list[str] = []

    def __init__(self, model_admin: Any) -> None:
        self.admin = model_admin

    def may_view(self, request: HttpRequest) -> bool:
        return True

    def is_shown(self, obj: Any) -> bool:
        """Return whether the panel applies to an object."""
        return True

    def context(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        raise NotImplementedError

    def url(self, view: str, obj: Any) -> str:
        return reverse(f"admin:{self._url_name(view)}", args=[obj.pk])

    def _url_name(self, view: str) -> str:
        return f"{self.admin.opts.app_label}_{self.admin.opts.model_name}_{view}"

    def urls(self) -> list[URLPattern]:
        wrap = self.admin.admin_site.admin_view
        return [
            path(f"<path:object_id>/{view}/", wrap(getattr(self, view)), name=self._url_name(view))
            for view in self.views
        ]


def object_view(permission: str, method: str = "POST", *, asks_first: bool = False) -> Callable[..., Any]:
    """Make a panel's method a view of one object that requires a permission. None redirects to the object's page.

    One that asks first is also opened with GET, for its confirmation page.
    """
    methods = ["GET", method] if asks_first else [method]

    def decorate(view: Callable[[Any, HttpRequest, Any], HttpResponse | None]) -> Callable[..., HttpResponse]:
        @wraps(view)
        def checked(panel: Panel, request: HttpRequest, object_id: str) -> HttpResponse:
            if request.method not in methods:
                return HttpResponseNotAllowed(methods)
            obj = panel.admin.get_object_or_404(request, object_id)
            has_permission = getattr(panel.admin, f"has_{permission}_permission")
            if not panel.may_view(request) or not panel.is_shown(obj) or not has_permission(request, obj):
                raise PermissionDenied
            return view(panel, request, obj) or HttpResponseRedirect(panel.url("change", obj))

        # Named on the error page.
        checked.allowed_permissions = [permission]  # type: ignore[attr-defined]  # as on Django's actions
        return checked

    return decorate


def declared_panels(model_admin: Any) -> list[Panel]:
    label = model_admin.opts.label
    paths = [name for app in apps.get_app_configs() for name in getattr(app, "admin_panels", {}).get(label, [])]
    return [import_string(name)(model_admin) for name in paths]


def declared(name: str) -> list[Any]:
    """Return the functions that apps declare for pages of others: an attribute of their `AppConfig` has its path."""
    return [import_string(getattr(app, name)) for app in apps.get_app_configs() if hasattr(app, name)]
