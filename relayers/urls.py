from relayer_service.api.routers import ResourceRouter
from relayers.viewsets import RelayerViewSet

router = ResourceRouter()
router.register("relayers", RelayerViewSet)
urlpatterns = router.urls
