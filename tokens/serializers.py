from typing import Any

from rest_framework import serializers

from relayer_service.api.serializers import BodySerializer, IntegerField, ListField, StringField, TimestampField
from tokens.writes import DEFAULT_OVERLAP, MAX_OVERLAP


class RotateTokenSerializer(BodySerializer):
    """How to rotate a token."""

    overlap_seconds = IntegerField(
        max_value=int(MAX_OVERLAP.total_seconds()),
        required=False,
        default=int(DEFAULT_OVERLAP.total_seconds()),
        help_text="How long the old token is still accepted, but never beyond its expiry. A day by default.",
    )


class RotatedTokenSerializer(serializers.Serializer[Any]):
    """The old token of a rotation."""

    token = StringField(source="public_part", help_text="The public part of the token.")
    expires_at = TimestampField(help_text="When it is no longer accepted.")


class RotationSerializer(serializers.Serializer[Any]):
    """The new token of a rotation. The service keeps no copy of its text."""

    token = StringField(source="text", help_text="The token, returned only in this response.")
    name = StringField(source="new.name")
    scopes = ListField(source="new.scopes", child=StringField(), help_text="Those of the old token.")
    allowed_relayers = ListField(
        source="new.allowed_relayers", child=StringField(), help_text="Those of the old token; empty: all."
    )
    expires_at = TimestampField(
        source="new.expires_at", allow_null=True, help_text="When the old token would have expired; null: never."
    )
    replaces = RotatedTokenSerializer(source="old")
