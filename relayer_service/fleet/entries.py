"""References from one entry of a fleet file to another."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import ValidationError

from relayer_service.api.serializers import StringField


class ReferenceField(StringField):
    """The id of a row that exists, or of an entry in a section that stands before this one in `FLEET_SECTIONS`."""

    def __init__(self, section: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.section = section

    def to_internal_value(self, data: Any) -> str:
        identifier = super().to_internal_value(data)
        section = self.context["sections"][self.section]
        if identifier not in section.known:
            word = section.queryset.model._meta.verbose_name
            raise ValidationError(f"there is no {word} with this id, neither in the file nor in the service")
        return identifier


def identifier_of(entry: Any, name: str = "id") -> str:
    """Return an id that an entry names, valid or not; empty where it is missing or no string."""
    identifier = entry.get(name) if isinstance(entry, dict) else None
    return identifier if isinstance(identifier, str) else ""
