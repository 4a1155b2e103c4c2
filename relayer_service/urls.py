from typing import Any

from django.conf import settings
from django.contrib import admin
from django.urls import include, path, re_path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularAPIView, SpectacularRedocView, SpectacularSwaggerSplitView

import notifications.urls
import relayers.urls
import rpc.urls
import signers.urls
from relayer_service.ops.health import MetricsView, health, ready

handler500 = "relayer_service.api.exceptions.server_error"

READ_ONLY: dict[str, Any] = {"http_method_names": ["get", "head"]}

# In one list, as every level of includes costs each request time.
API = [
    *signers.urls.urlpatterns,
    *notifications.urls.urlpatterns,
    # Before the relayers: the path of a relayer takes whatever follows `relayers/`.
    *rpc.urls.urlpatterns,
    *relayers.urls.urlpatterns,
]

urlpatterns = [
    path("api/v1/", include(API)),
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("admin", RedirectView.as_view(pattern_name="admin:index")),
    path("favicon.ico", RedirectView.as_view(url=f"{settings.STATIC_URL}relayer_service/favicon.svg")),
    path("admin/", admin.site.urls),
    path("health", health, name="health"),
    path("ready", ready, name="ready"),
    path("metrics", MetricsView.as_view(), name="metrics"),
    re_path(r"^api/schema/?$", SpectacularAPIView.as_view(**READ_ONLY), name="schema"),
    re_path(r"^api/docs/?$", SpectacularSwaggerSplitView.as_view(url_name="schema", **READ_ONLY), name="docs"),
    re_path(r"^api/redoc/?$", SpectacularRedocView.as_view(url_name="schema", **READ_ONLY), name="redoc"),
]
