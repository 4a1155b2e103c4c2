"""Serializers of resources: their fields declare the columns that are read, shown and documented."""

import json
from collections.abc import Callable, Collection
from functools import cache
from typing import Any, ClassVar

import orjson
from django.db.models import Model
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from relayer_service.api.exceptions import refusals
from relayer_service.api.serializers import BodySerializer, LiteralField, collecting
from relayer_service.writes import Write

Converter = Callable[[Any], Any]

# Serializers and lists that do not override how the JSON of their column is shown.
AS_STORED = {
    serializers.Serializer.to_representation,
    serializers.ListSerializer.to_representation,
    serializers.ListField.to_representation,
}


class PageSerializer(serializers.ListSerializer[Any]):
    """The rows of a page in responses: instances, or rows of the `columns` of a `ResourceSerializer`."""

    child: Any

    def to_representation(self, data: Any) -> list[Any]:
        convert = self.child.converter()
        return [convert(row) if isinstance(row, tuple) else self.child.to_representation(row) for row in data]

    @property
    def data(self) -> Any:
        # Not kept, as `ListSerializer` does: it and its child refer to each other.
        return self.to_representation(self.instance)


class ResourceSerializer(serializers.Serializer[Any]):
    """A resource in responses, from an instance of its model or from a row of `columns`.

    A nested serializer shows the JSON of one column, or with `source="*"` an object of several columns. Empty fields
    that are not required are omitted.
    """

    @classmethod
    def many_init(cls, *args: Any, **kwargs: Any) -> PageSerializer:
        kwargs["child"] = cls()
        return PageSerializer(*args, **kwargs)

    @classmethod
    @cache
    def columns(cls) -> tuple[str, ...]:
        """Return the ORM names of the columns that the fields show."""
        return tuple(column for name, field in cls._declared_fields.items() for column in _columns(name, field))

    @classmethod
    @cache
    def converter(cls) -> Converter:
        """Return a function that converts a row of `columns` for a response, prepared once for all rows."""
        fields, place = [], 0
        for name, field in cls._declared_fields.items():
            width = len(_columns(name, field))
            where = slice(place, place + width) if field.source == "*" else place
            fields.append((name, where, _converter(field), () if field.required else _empty_values(field, width)))
            place += width

        def convert_row(row: Any) -> dict[str, Any]:
            shown = {}
            for name, where, convert, empty_values in fields:
                value = row[where]
                if value not in empty_values:
                    shown[name] = convert(value) if convert else value
            return shown

        return convert_row

    def to_representation(self, instance: Any) -> Any:
        return self.converter()(tuple(_value(instance, column) for column in self.columns()))


class RequestSerializer(BodySerializer):
    """The body of a request that writes a resource with `write_class`; `answer_class` represents the result."""

    answer_class: ClassVar[type[ResourceSerializer]]
    write_class: ClassVar[type[Write[Any]]]
    write: Write[Any]

    def values(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Convert valid fields to the input of the write."""
        return attrs

    @classmethod
    def read_only_names(cls) -> Collection[str]:
        return cls.answer_class._declared_fields.keys()

    def to_representation(self, instance: Any) -> Any:
        return self.answer_class().to_representation(instance)

    @property
    def warnings(self) -> list[str]:
        return [f"{path}: {text}" for path, text in self.write.warnings]


class CreateSerializer(RequestSerializer):
    """The body of a create request; its rules are checked before the transaction starts."""

    def to_internal_value(self, data: Any) -> Any:
        """Return the fields; raise the faults of some with those that the others have by the rules of the model."""
        try:
            return super().to_internal_value(data)
        except ValidationError as error:
            faults: Any = {**error.detail}  # type: ignore[dict-item]  # a serializer has faults by field
        if isinstance(data, dict):
            names = (self.fields.keys() & data.keys()) - faults.keys()
            row = self.partial_row({name: self.fields[name].run_validation(data[name]) for name in names})
            with collecting(faults), refusals():
                if row is not None:
                    row.clean()
        raise ValidationError(faults)

    def partial_row(self, valid: dict[str, Any]) -> Model | None:
        """Return a row of the valid fields, if they are enough for the rules of its model."""
        return None

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        with refusals():
            self.write = self.write_class.new(self.values(attrs))
        return attrs

    def create(self, validated_data: dict[str, Any]) -> Any:
        with refusals():
            self.write.lock()
        return self.write.save()


class UpdateSerializer(RequestSerializer):
    """The body of an update request; `update` runs with the row locked."""

    create_class: ClassVar[type[BodySerializer]]

    @classmethod
    def immutable_names(cls) -> Collection[str]:
        return cls.create_class._declared_fields.keys()

    def update(self, instance: Any, validated_data: dict[str, Any]) -> Any:
        self.write = self.write_class(instance)
        with refusals():
            self.write.change(self.values(validated_data))
            self.write.lock()
        return self.write.save()


def _columns(name: str, field: Any) -> tuple[str, ...]:
    return tuple(field.columns()) if field.source == "*" else ((field.source or name).replace(".", "__"),)


def _converter(field: Any) -> Converter | None:
    """Return the function that converts a column for a response; None if it is shown as stored."""
    if type(field).to_representation is LiteralField.to_representation:
        return None
    if field.source == "*":
        nested: Converter = field.converter()
        return nested
    own: Converter = field.to_representation
    # Stored JSON is valid, and may contain integers that are too large for orjson.
    return orjson.Fragment if type(field).to_representation in AS_STORED else own


def _empty_values(field: Any, width: int) -> tuple[Any, ...]:
    """Return the values for which an optional field is omitted."""
    if field.source == "*":
        # The first column may be that of a related row.
        return (("",) * width, (None, *("",) * (width - 1)), (None,) * width)
    if isinstance(field, serializers.BaseSerializer):
        return None, "{}", "[]"
    return ("{}", "[]") if isinstance(field, serializers.ListField) else (None, "")


def _value(instance: Any, column: str) -> Any:
    """Return a column of an instance or of a related one, as the database returns it."""
    for name in column.split("__"):
        instance = getattr(instance, name) if instance is not None else None
    return json.dumps(instance, ensure_ascii=False) if isinstance(instance, dict | list) else instance
