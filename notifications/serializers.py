from collections.abc import Collection
from typing import Any

import orjson
from django.core.validators import ProhibitNullCharactersValidator
from django.db.models import Q
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field, extend_schema_serializer
from rest_framework.serializers import DictField

from notifications.delivery import signing
from notifications.events import all_events
from notifications.models import Delivery, Notification, validate_webhook_url
from notifications.writes import NotificationWrite
from relayer_service.api.filters import column_range, filter_serializer, one_of
from relayer_service.api.resource_serializers import CreateSerializer, ResourceSerializer, UpdateSerializer
from relayer_service.api.serializers import (
    BodySerializer,
    BooleanField,
    ChoiceField,
    IntegerField,
    ListField,
    NewIdentifierField,
    ObjectField,
    StringField,
    TimestampField,
)
from relayer_service.net import outgoing
from relayer_service.net.addresses import without_user_info

# Query parameters of the list of a notification's deliveries.
DELIVERY_FILTERS = {
    "state": one_of({state: Q(state=state) for state in Delivery.State.values}, "Only deliveries in this state."),
    "event": one_of({event: Q(event=event) for event in all_events()}, "Only deliveries of this event."),
    **column_range("created_at", "created"),
}
MAX_ATTEMPTS_SHOWN = 100
MAX_EVENTS = 100
EVENTS_HELP = (
    "The events that it receives, by name or by group: `relayer.*`, `transaction.*`, `notification.*`, `price.*`, "
    "`token.*`. By default those of its relayers, `relayer.*` and `transaction.*`; the others are about the whole "
    "service."
)
URL_HELP = (
    "An absolute http or https URL without a user name or password. The port must be 80, 443 or at least 1024; "
    "an IP address must be public."
)


class TypeField(ChoiceField):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(choices=[Notification.Type.WEBHOOK.value], **kwargs)


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


class NewSigningKeyField(SigningKeyField):
    """A key that can sign. The contract's update accepts any string."""

    default_error_messages = {"unusable": "must be base64 after whsec_"}

    def to_internal_value(self, data: Any) -> str:
        key = super().to_internal_value(data)
        try:
            signing.key_bytes(key)
        except signing.UnusableKey:
            self.fail("unusable")
        return key


class FlagField(BooleanField):
    """A boolean that the database computes, which SQLite returns as a number."""

    def to_representation(self, value: Any) -> bool:
        return bool(value)


@extend_schema_field({"type": "boolean", "x-extension": "lifecycle"})
class EnabledField(FlagField):
    """Whether events are sent."""


@extend_schema_field(
    {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}, "x-extension": "lifecycle"}
)
class EventsField(ListField):
    """Names and groups of events, stored as one text; the write checks them."""

    child = StringField(max_length=64)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=MAX_EVENTS, **kwargs)

    def to_representation(self, value: Any) -> list[str]:
        return str(value).split()


class NotificationSerializer(ResourceSerializer):
    """A webhook target. Responses report whether a signing key is set, never the key."""

    id = StringField(source="identifier")
    type = TypeField()
    url = ShownUrlField(help_text="The URL that events are sent to.")
    has_signing_key = FlagField(help_text="Whether a signing key is set.")


class ManagedNotificationSerializer(NotificationSerializer):
    """A webhook target with the fields that the interface document does not show."""

    enabled = EnabledField(help_text="Whether events are sent. If not, new events are skipped, pending ones held.")
    events = EventsField(help_text=EVENTS_HELP)


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


class AttemptSerializer(ResourceSerializer):
    """One request of a delivery. Fields without a value are omitted."""

    started_at = TimestampField(help_text="Its `webhook-timestamp`, which is in whole seconds.")
    milliseconds = IntegerField(max_value=2**31 - 1)
    response_code = IntegerField(max_value=999, required=False)
    error = StringField(required=False)


class FullAttemptSerializer(AttemptSerializer):
    """One request of a delivery, with what the target answered. Fields without a value are omitted."""

    response_body = StringField(
        source="answer", required=False, help_text="The first 2 kB; only for tokens with the scope `manage`."
    )


@extend_schema_field({"type": "object", "additionalProperties": True})
class PayloadField(ObjectField):
    """The JSON object that a webhook receives."""


class FullDeliverySerializer(DeliverySerializer):
    """A delivery with its request and its attempts. Fields without a value are omitted."""

    headers = DictField(
        child=StringField(),
        help_text="The headers that are the same at every attempt. Signatures are not shown: with one, anyone could "
        "send the event again.",
    )
    payload = PayloadField(help_text="The body of each attempt.")
    attempt_log = ListField(
        child=FullAttemptSerializer(),
        help_text=f"The attempts, newest first, also those before a replay; at most {MAX_ATTEMPTS_SHOWN}.",
    )

    def to_representation(self, instance: Delivery) -> dict[str, Any]:
        attempts = instance.attempts.order_by("-id")[:MAX_ATTEMPTS_SHOWN]
        # As in the admin: those who may change the target see its answers, which may repeat what it was sent.
        shown = FullAttemptSerializer() if self.context["request"].auth.has_scope("manage") else AttemptSerializer()
        return {
            **DeliverySerializer().to_representation(instance),
            "headers": {**outgoing.HEADERS, "webhook-id": instance.identifier},
            "payload": orjson.Fragment(bytes(instance.body)),
            "attempt_log": [shown.to_representation(attempt) for attempt in attempts],
        }


DeliveryFilterSerializer = filter_serializer(
    "DeliveryFilterSerializer",
    "The deliveries that match all of these; without any, all deliveries.",
    DELIVERY_FILTERS,
)


class ReplayDeliveriesSerializer(BodySerializer):
    """The deliveries to send again."""

    filter = DeliveryFilterSerializer()


class CreateNotificationSerializer(CreateSerializer):
    """A notification to create."""

    answer_class = ManagedNotificationSerializer
    write_class = NotificationWrite

    id = NewIdentifierField()
    type = TypeField(required=False)
    url = WebhookUrlField(help_text=URL_HELP)
    signing_key = NewSigningKeyField(
        help_text="If absent, null or empty, events are not signed. Never returned in a response."
    )
    enabled = EnabledField(required=False, help_text="Whether events are sent; true by default.")
    events = EventsField(required=False, allow_null=True, help_text=EVENTS_HELP)

    def partial_row(self, valid: dict[str, Any]) -> Notification:
        return Notification(identifier=valid.get("id", ""))


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

    @classmethod
    def immutable_names(cls) -> Collection[str]:
        # Without the extension, the other fields of a new notification do not exist.
        return ("id",)


@extend_schema_serializer(component_name="UpdateNotification")
class UpdateManagedNotificationSerializer(UpdateNotificationSerializer):
    """The fields of a notification to change; omitted fields are unchanged."""

    enabled = EnabledField(required=False, help_text="Whether events are sent. Not in the response.")
    events = EventsField(
        required=False, allow_null=True, help_text=f"{EVENTS_HELP} Null: the default. Not in the response."
    )
