from relayer_service.api.routers import ResourceRouter
from rpc.viewsets import FeeTokenViewSet, RpcViewSet

router = ResourceRouter()
router.register("relayers", RpcViewSet, basename="relayer")
router.register("fee-tokens", FeeTokenViewSet)
urlpatterns = router.urls
