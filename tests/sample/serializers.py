from drf_spectacular.utils import OpenApiExample, extend_schema_serializer

from relayer_service.api.resource_serializers import CreateSerializer, ResourceSerializer
from relayer_service.api.serializers import StrictSerializer, StringField
from tests.sample.writes import ItemWrite

EXAMPLE = OpenApiExample("Item", {"id": "item-1", "name": "First"})


@extend_schema_serializer(examples=[EXAMPLE])
class ItemSerializer(ResourceSerializer, StrictSerializer):
    """An item."""

    id = StringField(max_length=255, source="identifier")
    name = StringField()


@extend_schema_serializer(examples=[EXAMPLE])
class CreateItemSerializer(CreateSerializer):
    """An item to create."""

    answer_class = ItemSerializer
    write_class = ItemWrite

    id = StringField(max_length=255)
    name = StringField()


class PolishSerializer(StrictSerializer):
    """How an item is polished."""

    shine = StringField()
