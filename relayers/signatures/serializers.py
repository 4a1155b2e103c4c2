"""Bodies of the extension `signing`."""

import re
from typing import Any, ClassVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field, extend_schema_serializer
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from chain import typed_data
from chain.messages import message_digest, typed_data_digest
from relayer_service.api.error_codes import ErrorCode
from relayer_service.api.serializers import (
    REQUIRED,
    BodySerializer,
    IntegerField,
    LiteralField,
    ObjectField,
    StringField,
    shown_name,
)

HASHES = ("domain_separator", "hash_struct_message")
DOCUMENT = ("types", "domain", "message")
PRIMARY_TYPES = ("primary_type", "primaryType")
ONE_FORM = f"send either {' and '.join(HASHES)}, or types, domain and message"


@extend_schema_field(OpenApiTypes.STR)
class TextField(LiteralField):
    """Any text, which may be empty or have NUL characters."""

    default_error_messages = {"invalid": "a string is required"}

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return data


@extend_schema_field({"type": "string", "pattern": "^(0x)?([0-9a-fA-F]{2})*$"})
class BytesField(LiteralField):
    default_error_messages = {"invalid": "bytes in hexadecimal are required"}
    text_format = re.compile(r"(?:0x)?([0-9a-fA-F]*)", re.ASCII)

    def to_internal_value(self, data: Any) -> bytes:
        match = self.text_format.fullmatch(data) if isinstance(data, str) else None
        if match is None or len(match[1]) % 2:
            self.fail("invalid")
        return bytes.fromhex(match[1])


@extend_schema_field({"type": "string", "pattern": "^(0x)?[0-9a-fA-F]{64}$"})
class HashField(BytesField):
    default_error_messages = {"invalid": "32 bytes in hexadecimal are required"}
    text_format = re.compile(r"(?:0x)?([0-9a-fA-F]{64})", re.ASCII)


@extend_schema_field({"type": "object", "additionalProperties": True})
class DocumentField(ObjectField):
    """An object whose content `chain.typed_data` checks."""


class SignMessageSerializer(BodySerializer):
    """A message to sign (EIP-191): text or bytes."""

    document_limits: ClassVar = {"minProperties": 1, "maxProperties": 1}

    message = TextField(
        required=False, help_text="Its UTF-8 bytes are signed; a string of hexadecimal digits is text too."
    )
    message_hex = BytesField(required=False, help_text="The bytes to sign in hexadecimal; 0x is optional.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if len(attrs) > 1:
            raise ValidationError("send either message or message_hex")
        if not attrs:
            raise ValidationError({"message": [REQUIRED["required"]]}, ErrorCode.REQUIRED)
        message = attrs["message"].encode() if "message" in attrs else attrs["message_hex"]
        return {"digest": message_digest(message), "size": len(message)}


# Generators that convert names to camel case would have one field twice.
@extend_schema_serializer(exclude_fields=["primaryType"])
class SignTypedDataSerializer(BodySerializer):
    """Typed data to sign (EIP-712): its two hashes, or the whole of it, which is checked and hashed here."""

    domain_separator = HashField(required=False, help_text="32 bytes in hexadecimal; 0x is optional.")
    hash_struct_message = HashField(required=False, help_text="32 bytes in hexadecimal; 0x is optional.")
    types = DocumentField(required=False, help_text="By struct, its fields, each with `name` and `type`.")
    domain = DocumentField(required=False, help_text="Its `chainId`, if it has one, must be the relayer's.")
    message = DocumentField(required=False)
    primary_type = StringField(
        required=False,
        help_text="The type of the message, also accepted as `primaryType`. Can be omitted if no other type refers to "
        "exactly one of the types.",
    )

    def get_fields(self) -> dict[str, Any]:
        # As wallets name it.
        return {**super().get_fields(), "primaryType": StringField(required=False)}

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Return the digest, and the typed data unless only its hashes were sent."""
        has_hashes = any(name in attrs for name in HASHES)
        if has_hashes == any(name in attrs for name in (*DOCUMENT, *PRIMARY_TYPES)):
            raise ValidationError(ONE_FORM)
        expected = HASHES if has_hashes else DOCUMENT
        if missing := [name for name in expected if name not in attrs]:
            raise ValidationError({name: [REQUIRED["required"]] for name in missing}, ErrorCode.REQUIRED)
        if has_hashes:
            return {"digest": typed_data_digest(*(attrs[name] for name in HASHES)), "typed_data": None}
        return _parsed(attrs)


def _parsed(attrs: dict[str, Any]) -> dict[str, Any]:
    if all(name in attrs for name in PRIMARY_TYPES):
        raise ValidationError({"primaryType": ["is given more than once, also as primary_type"]}, ErrorCode.DUPLICATE)
    given = next((name for name in PRIMARY_TYPES if name in attrs), "primary_type")
    try:
        parsed = typed_data.parse(**{name: attrs[name] for name in DOCUMENT}, primary_type=attrs.get(given))
    except typed_data.InvalidTypedData as error:
        faults: dict[str, list[str]] = {}
        for (first, *rest), text in error.faults:
            first = given if first == "primary_type" else first
            faults.setdefault(_path_text(str(first), rest), []).append(text)
        raise ValidationError(faults) from None
    return {"digest": parsed.digest, "typed_data": parsed}


def _path_text(first: str, rest: list[str | int]) -> str:
    return first + "".join(f"[{name}]" if isinstance(name, int) else f".{shown_name(name)}" for name in rest)


class SignatureSerializer(serializers.Serializer[Any]):
    """The signature, in hexadecimal without 0x."""

    r = StringField()
    s = StringField()
    v = IntegerField(min_value=27, max_value=28)
    sig = StringField(help_text="`r`, `s` and `v` as 65 bytes.")
