"""Items in fleet files: the smallest section."""

from __future__ import annotations

from typing import Any

from relayer_service.api.serializers import IdentifierField, StrictSerializer, StringField
from relayer_service.fleet.files import ReferenceField
from relayer_service.fleet.references import Variables, escape
from relayer_service.fleet.sections import Section
from tests.sample.models import Item
from tests.sample.writes import ItemWrite


class ItemEntry(StrictSerializer):
    id = IdentifierField()
    name = StringField()
    relayer_id = ReferenceField("relayers", required=False)


class ItemSection(Section):
    name = "items"
    entry = ItemEntry
    queryset = Item.objects.all()
    write_class = ItemWrite

    @classmethod
    def dump_row(cls, row: Item, variables: Variables) -> dict[str, Any]:
        return {"id": escape(row.identifier), "name": escape(row.name)}
