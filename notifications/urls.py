from notifications.viewsets import NotificationViewSet
from relayer_service.api.routers import ResourceRouter

router = ResourceRouter()
router.register("notifications", NotificationViewSet)
urlpatterns = router.urls
