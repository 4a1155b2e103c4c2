"""How answers show a resource: the declared fields of one serializer say what is selected, written and documented."""

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, ClassVar, NamedTuple

import orjson
from rest_framework import serializers

from relayer_service.api.serializers import LiteralField, StrictSerializer

Field = serializers.Field[Any, Any, Any, Any]


class Member(NamedTuple):
    """A member of the object that answers show: where its value stands in the row, and how it is written."""

    name: str
    place: int | slice
    write: Callable[[Any], Any] | None
    # Values with which the member is left out.
    empty: tuple[Any, ...]


class ResourceSerializer(serializers.Serializer[Any]):
    """A resource as answers show it, from a model's row or from a page's tuple of `columns`.

    It reads its declared fields once, as a page has thousands of values. A nested serializer shows what one column
    holds as JSON, or with `source="*"` an object of several columns. A field that is not required is left out while
    it is empty.
    """

    @classmethod
    @cache
    def columns(cls) -> tuple[str, ...]:
        """Return the columns that the fields show, as the ORM names them."""
        return tuple(column for name, field in cls._shown() for column in _columns(name, field))

    @classmethod
    @cache
    def members(cls) -> tuple[Member, ...]:
        members, start = [], 0
        for name, field in cls._shown():
            end = start + len(_columns(name, field))
            place = slice(start, end) if field.source == "*" else start
            members.append(Member(name, place, _writer(field), () if field.required else _empty(field, end - start)))
            start = end
        return tuple(members)

    @classmethod
    def _shown(cls) -> Iterator[tuple[str, Field]]:
        return ((name, field) for name, field in cls._declared_fields.items() if not field.write_only)

    def to_representation(self, instance: Any) -> dict[str, Any]:
        row = instance if isinstance(instance, tuple) else tuple(_value(instance, each) for each in self.columns())
        shown = {}
        for name, place, write, empty in self.members():
            value = row[place]
            if value not in empty:
                shown[name] = write(value) if write else value
        return shown


class RequestSerializer(StrictSerializer):
    """The body of a request that changes a resource; the answer shows it as `answer_class` does."""

    answer_class: ClassVar[type[ResourceSerializer]]

    def to_representation(self, instance: Any) -> dict[str, Any]:
        return self.answer_class().to_representation(instance)


def _columns(name: str, field: Field) -> tuple[str, ...]:
    if field.source == "*":
        assert isinstance(field, ResourceSerializer)
        return field.columns()
    return ((field.source or name).replace(".", "__"),)


def _writer(field: Field) -> Callable[[Any], Any] | None:
    """Return what turns a value into what answers show; None where they show it as it is."""
    if type(field).to_representation is LiteralField.to_representation:
        return None
    if type(field).to_representation in {
        serializers.Serializer.to_representation,
        serializers.ListSerializer.to_representation,
    }:
        return _stored_json
    return field.to_representation


def _empty(field: Field, columns: int) -> tuple[Any, ...]:
    if field.source == "*":
        return (("",) * columns,)
    return ("{}", "[]", {}, []) if isinstance(field, serializers.BaseSerializer) else (None, "")


def _stored_json(value: Any) -> orjson.Fragment:
    """Return what a column holds as JSON, unread: it was checked before, and may have integers too large for orjson."""
    return orjson.Fragment(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _value(instance: Any, column: str) -> Any:
    """Return an attribute of a row, or of the row that it refers to; None where it refers to none."""
    for name in column.split("__"):
        instance = getattr(instance, name) if instance is not None else None
    return instance
