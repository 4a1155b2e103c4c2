"""The measured endpoints the plain way: a model serializer, a model view set, a router."""

from typing import Any

from django.urls import include, path
from rest_framework import routers, serializers, viewsets

from benchmarks.stock.models import Signer


class SignerSerializer(serializers.ModelSerializer[Signer]):
    class Meta:
        model = Signer
        fields = ["id", "type", "config"]


class SignerViewSet(viewsets.ModelViewSet[Any]):
    queryset = Signer.objects.all()
    serializer_class = SignerSerializer


router = routers.DefaultRouter(trailing_slash=False)
router.register("signers", SignerViewSet)

urlpatterns = [path("api/v1/", include(router.urls))]
