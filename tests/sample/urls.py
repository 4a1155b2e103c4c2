from django.urls import include, path, re_path

from relayer_service.api.routers import ResourceRouter
from relayer_service.urls import handler400, handler403, handler404, handler500
from relayer_service.urls import urlpatterns as service
from tests.sample.viewsets import CrashInRendererView, CrashView, ItemViewSet

__all__ = ["handler400", "handler403", "handler404", "handler500", "urlpatterns"]

router = ResourceRouter()
router.register("items", ItemViewSet)

urlpatterns = [
    path("api/v1/", include(router.urls)),
    re_path(r"^api/v1/crash/?$", CrashView.as_view(), name="crash"),
    re_path(r"^api/v1/crash-in-renderer/?$", CrashInRendererView.as_view(), name="crash-in-renderer"),
    *service,
]
