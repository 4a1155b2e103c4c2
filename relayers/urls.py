from relayer_service.api.routers import ResourceRouter
from relayers.signatures.viewsets import SigningViewSet
from relayers.viewsets import NetworkViewSet, RelayerViewSet

router = ResourceRouter()
router.register("networks", NetworkViewSet, basename="network")
router.register("relayers", SigningViewSet, basename="relayer-signature")
router.register("relayers", RelayerViewSet)
urlpatterns = router.urls
