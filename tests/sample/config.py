"""Items in fleet files: the smallest section."""

from __future__ import annotations

from typing import Any

from relayer_service.api.serializers import IdentifierField, StrictSerializer, StringField
from relayer_service.fleet.files import ReferenceField
from relayer_service.fleet.references import Variables, escape
from relayer_service.fleet.sections import Change, Section
from tests.sample.models import Item


class ItemEntry(StrictSerializer):
    id = IdentifierField()
    name = StringField()
    relayer_id = ReferenceField("relayers", required=False)


class ItemSection(Section):
    name = "items"
    entry = ItemEntry
    queryset = Item.objects.all()

    def change(self, path: str, row: Item | None, values: dict[str, Any], broken: set[str]) -> Change | None:
        if broken:
            return None
        if row is None:
            return Change(Item(identifier=values["id"], name=values["name"]))
        change = Change(row, self.snapshot(row))
        if row.name != values["name"]:
            row.name = values["name"]
            change.note("name", "name")
        return change

    @classmethod
    def dump_row(cls, row: Item, variables: Variables) -> dict[str, Any]:
        return {"id": escape(row.identifier), "name": escape(row.name)}
