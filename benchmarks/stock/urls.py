"""The measured endpoints the plain way: a model serializer, a model view set, a router."""

from typing import Any

from django.urls import include, path
from rest_framework import routers, serializers, viewsets

from benchmarks.stock.models import Relayer, Signer


class SignerSerializer(serializers.ModelSerializer[Signer]):
    class Meta:
        model = Signer
        fields = ["id", "type", "config"]


class RelayerSerializer(serializers.ModelSerializer[Relayer]):
    class Meta:
        model = Relayer
        fields = [
            "id",
            "name",
            "network",
            "network_type",
            "address",
            "signer_id",
            "notification_id",
            "paused",
            "system_disabled",
            "disabled_reason",
            "custom_rpc_urls",
            "policies",
        ]

    def to_representation(self, instance: Relayer) -> dict[str, Any]:
        return {name: value for name, value in super().to_representation(instance).items() if value is not None}


class SignerViewSet(viewsets.ModelViewSet[Any]):
    queryset = Signer.objects.all()
    serializer_class = SignerSerializer


class RelayerViewSet(viewsets.ModelViewSet[Any]):
    queryset = Relayer.objects.all()
    serializer_class = RelayerSerializer


router = routers.DefaultRouter(trailing_slash=False)
router.register("signers", SignerViewSet)
router.register("relayers", RelayerViewSet)

urlpatterns = [path("api/v1/", include(router.urls))]
