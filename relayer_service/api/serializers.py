"""Strict JSON fields and serializers: no coercion, no trimming, no unknown fields."""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from typing import Any, ClassVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail, ValidationError
from rest_framework.fields import empty

from relayer_service.api.error_codes import ErrorCode
from relayer_service.api.exceptions import MAX_FAULTS
from relayer_service.api.parsers import WrittenFloat
from relayer_service.database.clock import timestamp
from relayer_service.evm import checksummed, validate_evm_address
from relayer_service.observability.logs import redact
from relayer_service.storage.resources import MAX_IDENTIFIER_LENGTH, validate_identifier

# Faults show no longer names of unknown fields: `redact` might not recognise a truncated secret.
MAX_NAME_LENGTH = 40
LONG_NAME = f"(a name of over {MAX_NAME_LENGTH} characters)"
# Without control characters.
IDENTIFIER = r"^[^\u0000-\u001f\u007f-\u009f]*$"
UNKNOWN_FIELD = ErrorDetail("unknown field", ErrorCode.UNKNOWN_FIELD)
READ_ONLY = ErrorDetail("this field is read-only", ErrorCode.READ_ONLY)
IMMUTABLE = ErrorDetail("this field cannot be changed", ErrorCode.IMMUTABLE)
RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,12})?(Z|[+-]\d\d:[0-5]\d)", re.ASCII | re.IGNORECASE)
REQUIRED: dict[str, Any] = {"required": "this field is required", "null": "null is not allowed here"}


def shown_name(name: str) -> str:
    """Return the name of an unknown field for a fault, redacted: it may be a secret sent as a name by mistake."""
    return redact(name) if len(name) <= MAX_NAME_LENGTH else LONG_NAME


@contextmanager
def collecting(faults: dict[str, Any], field: str = "") -> Iterator[None]:
    """Add the faults of a block to others instead of raising them, below a field if one is named."""
    try:
        yield
    except ValidationError as error:
        detail: Any = {field: error.detail} if field else error.detail
        faults.update(detail)


class LiteralField(serializers.Field[Any, Any, Any, Any]):
    """A field that represents its value as stored."""

    default_error_messages: ClassVar[dict[str, Any]] = REQUIRED

    def to_representation(self, value: Any) -> Any:
        return value


class StringField(LiteralField, serializers.CharField):
    default_error_messages = {
        "invalid": "a string is required",
        "blank": "an empty string is not allowed here",
        "max_length": "at most {max_length} characters are allowed",
        "min_length": "at least {min_length} characters are required",
    }

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("trim_whitespace", False)
        super().__init__(**kwargs)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return data


@extend_schema_field(OpenApiTypes.DATETIME)
class TimestampField(StringField):
    """A time in responses, as text in UTC with microseconds or as a `datetime`."""

    def to_representation(self, value: str | datetime) -> str:
        return timestamp(value) if isinstance(value, datetime) else value


@extend_schema_field({"type": "string", "minLength": 1, "maxLength": MAX_IDENTIFIER_LENGTH, "pattern": IDENTIFIER})
class IdentifierField(StringField):
    default_validators = [validate_identifier]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=MAX_IDENTIFIER_LENGTH, **kwargs)


class NewIdentifierField(IdentifierField):
    def __init__(self) -> None:
        super().__init__(required=False, help_text="The ID of the resource. If omitted, a UUID is generated.")


@extend_schema_field({"type": "string", "pattern": "^0x[0-9a-fA-F]{40}$"})
class EvmAddressField(StringField):
    default_validators = [validate_evm_address]

    def to_representation(self, value: str) -> str:
        return checksummed(value)


class ChoiceField(LiteralField, serializers.ChoiceField):
    """A choice of strings; its fault lists them and never repeats the input."""

    def __init__(self, choices: Any, **kwargs: Any) -> None:
        super().__init__(choices, **kwargs)
        self.error_messages["invalid_choice"] = f"must be one of: {', '.join(map(str, self.choices))}"

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, str) or data not in self.choices:
            self.fail("invalid_choice")
        return data


class BooleanField(LiteralField, serializers.BooleanField):
    default_error_messages = {"invalid": "true or false is required"}

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid")
        return data


class IntegerField(LiteralField):
    default_error_messages = {"invalid": "a whole number from {min_value} to {max_value} is required"}

    def __init__(self, *, min_value: int = 0, max_value: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.min_value, self.max_value = min_value, max_value

    def to_internal_value(self, data: Any) -> int:
        # In Python, True is an integer.
        if isinstance(data, bool) or not isinstance(data, int) or not self.min_value <= data <= self.max_value:
            self.fail("invalid", min_value=self.min_value, max_value=self.max_value)
        return data


class ExactAmountField(LiteralField):
    """An amount that clients may send as a string: JavaScript writes numbers from 1e21 on with an exponent."""

    default_error_messages = {
        "exponent": 'a number with an exponent may be rounded: send a string, such as "1000000000000000000000"'
    }

    def run_validation(self, data: Any = empty) -> Any:
        if isinstance(data, WrittenFloat) and data.has_exponent:
            self.fail("exponent")
        return super().run_validation(data)


@extend_schema_field({"type": "string", "format": "date-time"})
class TimeField(LiteralField):
    """A time of a request."""

    default_error_messages = {"invalid": "a time with its offset as in RFC 3339 is required"}

    def to_internal_value(self, data: Any) -> datetime:
        if not isinstance(data, str) or not RFC_3339.fullmatch(data):
            self.fail("invalid")
        try:
            return datetime.fromisoformat(data.upper()).astimezone(UTC)
        except (ValueError, OverflowError):
            self.fail("invalid")


class ObjectField(LiteralField):
    default_error_messages = {"invalid": "an object is required"}

    def to_internal_value(self, data: Any) -> Mapping[str, Any]:
        if not isinstance(data, dict):
            self.fail("invalid")
        return data


class ListField(serializers.ListField):
    default_error_messages = {
        **REQUIRED,
        "not_a_list": "a list is required",
        "max_length": "at most {max_length} entries are allowed",
    }


class StrictSerializer(serializers.Serializer[Any]):
    """Rejects a body that is not an object, and unknown fields."""

    default_error_messages = {**REQUIRED, "invalid": "an object is required"}
    # Further keywords of its schema in the OpenAPI document.
    document_limits: ClassVar[dict[str, Any]] = {}

    def validate_empty_values(self, data: Any) -> tuple[bool, Any]:
        # A body of `null` gets the fault of any other that is not an object.
        return (False, data) if data is None and self.parent is None else super().validate_empty_values(data)

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, dict):
            raise ValidationError({"non_field_errors": [self.error_messages["invalid"]]})
        unknown = islice((name for name in data if name not in self.fields), MAX_FAULTS)
        faults: dict[str, Any] = {shown_name(name): [self.unknown_fault(name)] for name in unknown}
        with collecting(faults):
            values = super().to_internal_value(data)
        if faults:
            raise ValidationError(faults)
        return values

    def unknown_fault(self, name: str) -> ErrorDetail:
        return UNKNOWN_FIELD


class BodySerializer(StrictSerializer):
    """Shares its fields between instances, as copying them is slow; not for fields that depend on the input."""

    @property
    def fields(self) -> Any:
        return _shared_fields(type(self), self.partial)

    @classmethod
    def immutable_names(cls) -> Collection[str]:
        """Return the fields that a body can have only when the resource is created."""
        return ()

    @classmethod
    def read_only_names(cls) -> Collection[str]:
        """Return the fields that only responses have."""
        return ()

    def unknown_fault(self, name: str) -> ErrorDetail:
        if name in self.immutable_names():
            return IMMUTABLE
        return READ_ONLY if name in self.read_only_names() else UNKNOWN_FIELD


@cache
def _shared_fields(serializer_class: type[BodySerializer], partial: bool) -> Any:
    # Fields read `partial` from the serializer that they are bound to.
    return super(BodySerializer, serializer_class(partial=partial)).fields
