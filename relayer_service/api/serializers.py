"""Fields and serializers that take JSON literally: no coercion, no trimming, no unknown members."""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from relayer_service.api.exceptions import MOST_FAULTS
from relayer_service.ops.logs import redact

# A name that is told back; a part of a longer one could be a part of a secret, which nothing shows any more.
LONGEST_NAME = 40
LONG_NAME = f"(a name of over {LONGEST_NAME} characters)"
REQUIRED = {"required": "this field is required", "null": "null is not allowed here"}


class StringField(serializers.CharField):
    """A JSON string, kept to the byte."""

    default_error_messages = {
        **REQUIRED,
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


class ChoiceField(serializers.ChoiceField):
    """One of a few strings; the fault names them and never repeats what was sent."""

    default_error_messages = {**REQUIRED, "invalid_choice": "one of the allowed values is required"}

    def __init__(self, choices: Any, **kwargs: Any) -> None:
        super().__init__(choices, **kwargs)
        self.error_messages["invalid_choice"] = f"must be one of: {', '.join(map(str, self.choices))}"

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, str) or data not in self.choices:
            self.fail("invalid_choice")
        return data


class ObjectField(serializers.Field[Any, Any, Any, Any]):
    """Any JSON object."""

    default_error_messages = {**REQUIRED, "invalid": "an object is required"}

    def to_internal_value(self, data: Any) -> Mapping[str, Any]:
        if not isinstance(data, dict):
            self.fail("invalid")
        return data

    def to_representation(self, value: Any) -> Any:
        return value


class StrictSerializer(serializers.Serializer[Any]):
    """Refuse a body that is no object, or that has a member the contract does not name."""

    default_error_messages = {**REQUIRED, "invalid": "an object is required"}

    def validate_empty_values(self, data: Any) -> tuple[bool, Any]:
        # A body that is `null` is no object, like any other that is none.
        return (False, data) if data is None and self.parent is None else super().validate_empty_values(data)

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, dict):
            raise ValidationError({"non_field_errors": [self.error_messages["invalid"]]})
        # A value that was sent as a name by mistake is not to be told back whole.
        unknown = islice((name for name in data if name not in self.fields), MOST_FAULTS)
        names = [redact(name) if len(name) <= LONGEST_NAME else LONG_NAME for name in unknown]
        faults: dict[str, Any] = {name: ["this field is not known"] for name in names}
        try:
            values = super().to_internal_value(data)
        except ValidationError as error:
            assert isinstance(error.detail, dict)
            raise ValidationError({**faults, **error.detail}) from None
        if faults:
            raise ValidationError(faults)
        return values
