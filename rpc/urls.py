from relayer_service.api.routers import ResourceRouter
from rpc.viewsets import RpcViewSet

router = ResourceRouter()
router.register("relayers", RpcViewSet, basename="relayer")
urlpatterns = router.urls
