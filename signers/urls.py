from relayer_service.api.routers import ResourceRouter
from signers.viewsets import SignerViewSet

router = ResourceRouter()
router.register("signers", SignerViewSet)
urlpatterns = router.urls
