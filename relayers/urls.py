from relayer_service.api.routers import ResourceRouter
from relayers.viewsets import NetworkViewSet, RelayerViewSet

router = ResourceRouter()
router.register("networks", NetworkViewSet, basename="network")
router.register("relayers", RelayerViewSet)
urlpatterns = router.urls
