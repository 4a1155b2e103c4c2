"""OpenAPI of notifications: examples, and what their serializers cannot express."""

from typing import Any

from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse

from notifications.models import Notification
from notifications.serializers import (
    CreateNotificationSerializer,
    DeliverySerializer,
    FullDeliverySerializer,
    ManagedNotificationSerializer,
    NotificationSerializer,
    ReplayDeliveriesSerializer,
)
from relayer_service.api import jobs


class NotificationType(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    target_class = "notifications.serializers.TypeField"

    def get_name(self) -> str:
        return "NotificationType"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        return {"type": "string", "enum": [Notification.Type.WEBHOOK.value]}


NOTIFICATION_EXAMPLE = OpenApiExample(
    "Notification",
    {
        "id": "notification-1",
        "type": "webhook",
        "url": "https://example.com/hooks/relayers",
        "has_signing_key": True,
    },
    response_only=True,
)
MANAGED_EXAMPLE = OpenApiExample(
    "Notification",
    {**NOTIFICATION_EXAMPLE.value, "enabled": True, "events": ["relayer.*", "token.expiring", "transaction.*"]},
    response_only=True,
)
NOTIFICATION: dict[str, Any] = {"examples": [MANAGED_EXAMPLE]}
CREATE: dict[str, Any] = {
    "request": CreateNotificationSerializer,
    "responses": {201: OpenApiResponse(ManagedNotificationSerializer, description="The notification was created.")},
    "examples": [
        OpenApiExample(
            "create",
            {
                "id": "notification-1",
                "url": "https://example.com/hooks/relayers",
                "signing_key": "<signing key>",
                "events": ["relayer.*", "transaction.*", "token.expiring"],
            },
            request_only=True,
        ),
        MANAGED_EXAMPLE,
    ],
}
DELIVERY_EXAMPLE = OpenApiExample(
    "Delivery",
    {
        "id": "msg_0123456789abcdef0123456789abcdef",
        "event": "relayer.disabled",
        "state": "failed",
        "attempts": 9,
        "response_code": 500,
        "error": "answered with 500",
        "created_at": "2026-01-01T00:00:00.000000Z",
        "attempted_at": "2026-01-03T00:00:00.000000Z",
    },
    response_only=True,
)
DELIVERY: dict[str, Any] = {
    "responses": {200: FullDeliverySerializer},
    "examples": [
        OpenApiExample(
            "Delivery",
            {
                "id": "msg_0123456789abcdef0123456789abcdef",
                "event": "notification.test",
                "state": "delivered",
                "attempts": 1,
                "response_code": 204,
                "created_at": "2026-01-01T00:00:00.000000Z",
                "attempted_at": "2026-01-01T00:00:00.100000Z",
                "headers": {
                    "Content-Type": "application/json",
                    "User-Agent": "Relayer-Management-Service",
                    "webhook-id": "msg_0123456789abcdef0123456789abcdef",
                },
                "payload": {
                    "type": "notification.test",
                    "timestamp": "2026-01-01T00:00:00.000000Z",
                    "data": {"notification_id": "notification-1"},
                },
                "attempt_log": [
                    {"started_at": "2026-01-01T00:00:00.100000Z", "milliseconds": 12, "response_code": 204}
                ],
            },
            response_only=True,
        )
    ],
}
REPLAY_DELIVERIES = jobs.started(
    ReplayDeliveriesSerializer, {"filter": {"state": "failed", "created_from": "2026-01-01T00:00:00Z"}}
)
DELIVERIES: dict[str, Any] = {"responses": {200: DeliverySerializer(many=True)}, "examples": [DELIVERY_EXAMPLE]}


def delivery(status: int, description: str) -> dict[str, Any]:
    responses = {status: OpenApiResponse(DeliverySerializer, description=description)}
    return {"request": None, "responses": responses, "examples": [DELIVERY_EXAMPLE]}


REPLAY = delivery(200, "The delivery, pending again.")
TEST = delivery(201, "The delivery of the test event.")
UPDATE: dict[str, Any] = {
    "description": "Change the fields of a notification that are sent; omitted fields are unchanged.",
    "parameters": [
        OpenApiParameter(
            "notification_id",
            str,
            OpenApiParameter.PATH,
            description="The notification's ID. Any character may be percent-encoded, including slashes.",
            examples=[OpenApiExample("notification", "notification-1")],
        )
    ],
    "responses": {200: OpenApiResponse(NotificationSerializer, description="The updated notification.")},
    # Docs pages prefill the first example, which must be harmless for a notification that is in use.
    "examples": [
        OpenApiExample("nothing", {"type": "webhook"}, summary="Change nothing", request_only=True),
        OpenApiExample(
            "change",
            {"type": "webhook", "url": "https://example.com/hooks/relayers", "signing_key": "<signing key>"},
            summary="Change the target and set the key",
            request_only=True,
        ),
        OpenApiExample("remove-key", {"signing_key": ""}, summary="Remove the key", request_only=True),
        NOTIFICATION_EXAMPLE,
    ],
}
