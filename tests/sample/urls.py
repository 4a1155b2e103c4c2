from django.urls import re_path

from relayer_service.urls import handler500
from relayer_service.urls import urlpatterns as service
from tests.sample.views import CrashInRendererView, CrashView, ItemListView

__all__ = ["handler500", "urlpatterns"]

urlpatterns = [
    re_path(r"^api/v1/items/?$", ItemListView.as_view(), name="item-list"),
    re_path(r"^api/v1/crash/?$", CrashView.as_view(), name="crash"),
    re_path(r"^api/v1/crash-in-renderer/?$", CrashInRendererView.as_view(), name="crash-in-renderer"),
    *service,
]
