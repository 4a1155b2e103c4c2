from typing import Any

from django.core.validators import ProhibitNullCharactersValidator
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field

from notifications.models import Delivery, Notification, validate_webhook_url
from notifications.writes import NotificationWrite
from relayer_service.api.representation import CreateSerializer, ResourceSerializer, UpdateSerializer
from relayer_service.api.serializers import (
    BooleanField,
    ChoiceField,
    IntegerField,
    NewIdentifierField,
    StringField,
    TimestampField,
)
from relayer_service.net.addresses import without_user_info

URL_HELP = (
    "An absolute http or https URL without a user name or password. The port must be 80, 443 or at least 1024; "
    "an IP address must be public."
)


class TypeField(ChoiceField):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(choices=Notification.Type.choices, **kwargs)


@extend_schema_field(OpenApiTypes.URI)
class WebhookUrlField(StringField):
    default_validators = [validate_webhook_url]


class ShownUrlField(StringField):
    """A URL without the password that earlier releases accepted in it."""

    def to_representation(self, value: str) -> str:
        return without_user_info(value) if "@" in value else value


class SigningKeyField(StringField):
    """Any string, even with NUL: it is stored encrypted."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(required=False, allow_null=True, allow_blank=True, write_only=True, **kwargs)
        self.validators = [each for each in self.validators if not isinstance(each, ProhibitNullCharactersValidator)]


class FlagField(BooleanField):
    """A boolean that the database computes, which SQLite returns as a number."""

    def to_representation(self, value: Any) -> bool:
        return bool(value)


class NotificationSerializer(ResourceSerializer):
    """A webhook target. Responses report whether a signing key is set, never the key."""

    id = StringField(source="identifier")
    type = TypeField()
    url = ShownUrlField(help_text="The URL that events are sent to.")
    has_signing_key = FlagField(help_text="Whether a signing key is set.")


class DeliverySerializer(ResourceSerializer):
    """The delivery of one event to a webhook. Fields without a value are omitted."""

    id = StringField(source="identifier", help_text="The `webhook-id`, the same at every attempt.")
    event = StringField()
    state = ChoiceField(choices=Delivery.State.choices)
    attempts = IntegerField(source="attempts_made", max_value=2**31 - 1)
    response_code = IntegerField(max_value=999, required=False, help_text="Of the last attempt.")
    error = StringField(required=False, help_text="The error of the last attempt.")
    created_at = TimestampField()
    attempted_at = TimestampField(required=False, help_text="When the last attempt began.")
    next_attempt_at = TimestampField(source="due_at", required=False, help_text="Set while it is pending.")


class CreateNotificationSerializer(CreateSerializer):
    """A notification to create."""

    answer_class = NotificationSerializer
    write_class = NotificationWrite

    id = NewIdentifierField()
    type = TypeField(required=False)
    url = WebhookUrlField(help_text=URL_HELP)
    signing_key = SigningKeyField(
        help_text="If absent, null or empty, events are not signed. Never returned in a response."
    )


class UpdateNotificationSerializer(UpdateSerializer):
    """The fields of a notification to change; omitted fields are unchanged."""

    answer_class = NotificationSerializer
    write_class = NotificationWrite

    type = TypeField(required=False)
    url = WebhookUrlField(required=False, help_text=URL_HELP)
    signing_key = SigningKeyField(
        help_text="If absent or null, the key is unchanged; an empty string removes it; any other string replaces it. "
        "Never returned in a response."
    )
