from relayer_service.api.routers import ResourceRouter
from transactions.viewsets import TransactionViewSet

router = ResourceRouter()
router.register("relayers", TransactionViewSet, basename="relayer-transaction")
urlpatterns = router.urls
