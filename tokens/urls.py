from relayer_service.api.routers import ResourceRouter
from tokens.viewsets import TokenViewSet

router = ResourceRouter()
router.register("tokens", TokenViewSet, basename="token")
urlpatterns = router.urls
