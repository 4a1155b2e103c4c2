from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.urls import include, path, re_path
from django.views.decorators.csrf import csrf_exempt
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularRedocView, SpectacularSwaggerSplitView

from relayer_service import extensions
from relayer_service.api.jobs import JobViewSet
from relayer_service.api.routers import ResourceRouter
from relayer_service.api.schema.view import SchemaView
from relayer_service.console.lists.search import palette
from relayer_service.console.overview import getting_started
from relayer_service.console.overview.incidents import acknowledge, undo
from relayer_service.health.views import MetricsView, health, ready

handler400 = "relayer_service.console.errors.bad_request"
handler403 = "relayer_service.console.errors.forbidden"
handler404 = "relayer_service.console.errors.not_found"
handler500 = "relayer_service.api.exceptions.server_error"

READ_ONLY: dict[str, Any] = {"http_method_names": ["get", "head"]}

router = ResourceRouter()
router.register("jobs", JobViewSet)
# The route of a relayer matches every path below `relayers/`, so `rpc` comes first. All patterns are in one list, and
# those of lists come first, as every `include` and every pattern before the right one costs time per request.
RESOURCES = [import_module(f"{app}.urls") for app in reversed(settings.RESOURCES)]
API = [*(pattern for resource in RESOURCES for pattern in resource.urlpatterns), *router.urls]
API.sort(key=lambda each: "(?P<" in str(each.pattern))

# Also under the paths of the published API, where another method is 405 rather than a failed CSRF check.
HEALTH = [re_path(r"^health/?$", csrf_exempt(health)), re_path(r"^ready/?$", csrf_exempt(ready))]

console_page = admin.site.admin_view
DEMO = [path("demo/webhook", csrf_exempt(getting_started.receive_demo_event))] if settings.LOCAL else []

urlpatterns = [
    path("api/v1/", include([*(HEALTH if extensions.is_enabled("lifecycle") else []), *API])),
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("admin", RedirectView.as_view(pattern_name="admin:index")),
    path("favicon.ico", RedirectView.as_view(url=f"{settings.STATIC_URL}relayer_service/favicon.svg")),
    path("admin/attention/acknowledge/", console_page(acknowledge), name="acknowledge"),
    path("admin/attention/undo/", console_page(undo), name="undo_acknowledgement"),
    path("admin/search/", console_page(palette)),
    path("admin/getting-started/demo/", console_page(getting_started.demo_view), name="getting_started_demo"),
    path("admin/getting-started/dismiss/", console_page(getting_started.dismiss), name="getting_started_dismiss"),
    path("admin/getting-started/<str:name>/", console_page(getting_started.open_step), name="getting_started_step"),
    *DEMO,
    path("admin/", admin.site.urls),
    path("health", health, name="health"),
    path("ready", ready, name="ready"),
    path("metrics", MetricsView.as_view(), name="metrics"),
    re_path(r"^api/schema/?$", SchemaView.as_view(**READ_ONLY), name="schema"),
    re_path(r"^api/docs/?$", SpectacularSwaggerSplitView.as_view(url_name="schema", **READ_ONLY), name="docs"),
    re_path(r"^api/redoc/?$", SpectacularRedocView.as_view(url_name="schema", **READ_ONLY), name="redoc"),
]
