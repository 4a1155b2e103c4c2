from drf_spectacular.utils import OpenApiExample, extend_schema_serializer

from relayer_service.api.representation import ResourceSerializer
from relayer_service.api.serializers import StrictSerializer, StringField
from tests.sample.models import Item


@extend_schema_serializer(examples=[OpenApiExample("Item", {"id": "item-1", "name": "First"})])
class ItemSerializer(ResourceSerializer, StrictSerializer):
    """An item."""

    id = StringField(max_length=255, source="identifier")
    name = StringField()

    def create(self, validated_data: dict[str, str]) -> Item:
        return Item.objects.create(**validated_data)


class PolishSerializer(StrictSerializer):
    """How an item is polished."""

    shine = StringField()
