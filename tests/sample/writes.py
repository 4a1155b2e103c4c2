"""The smallest write."""

from __future__ import annotations

from relayer_service.writes import Values, Write
from tests.sample.models import Item


class ItemWrite(Write[Item]):
    model = Item

    def set(self, values: Values) -> None:
        if values["name"] != self.row.name:
            self.row.name = values["name"]
            self.note("name", "name")
