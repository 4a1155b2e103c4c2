from __future__ import annotations

from typing import Any

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from notifications.deleting import blockers, delete_logs
from notifications.models import Notification
from notifications.schema import CREATE_NOTIFICATION, NOTIFICATION_EXAMPLE, UPDATE_NOTIFICATION
from notifications.serializers import (
    CreateNotificationSerializer,
    NotificationSerializer,
    UpdateNotificationSerializer,
)
from relayer_service.api.exceptions import Conflict
from relayer_service.api.viewsets import CreateMixin, DestroyMixin, PartialUpdateMixin, ResourceViewSet


@extend_schema_view(
    list=extend_schema(
        operation_id="list_notifications", summary="List notifications", examples=[NOTIFICATION_EXAMPLE]
    ),
    create=extend_schema(operation_id="create_notification", summary="Create a notification", **CREATE_NOTIFICATION),
    retrieve=extend_schema(
        operation_id="get_notification", summary="Get a notification", examples=[NOTIFICATION_EXAMPLE]
    ),
    partial_update=extend_schema(
        operation_id="update_notification", summary="Update a notification", **UPDATE_NOTIFICATION
    ),
    destroy=extend_schema(operation_id="delete_notification", summary="Delete a notification"),
)
class NotificationViewSet(
    ListModelMixin, CreateMixin, RetrieveModelMixin, PartialUpdateMixin, DestroyMixin, ResourceViewSet
):
    """Change a notification: what is sent is changed, what is left out stays as it is."""

    queryset = Notification.objects.all()
    lookup_url_kwarg = "notification_id"
    serializer_class = NotificationSerializer
    request_serializer_classes = {
        "create": CreateNotificationSerializer,
        "partial_update": UpdateNotificationSerializer,
    }
    action_extensions = dict.fromkeys(("list", "create", "retrieve", "destroy"), "lifecycle")
    action_scopes = {"list": "read", "create": "manage", "retrieve": "read", "destroy": "manage"}
    id_taken_message = "Notification with this ID already exists"
    not_found_message = "Notification not found"
    deleted_message = "Notification deleted successfully"
    in_use_message = "Notification is in use by a relayer, or has deliveries that are still to arrive"
    tags = ["Notifications"]

    def get_queryset(self) -> QuerySet[Any]:
        rows = super().get_queryset()
        # A list shows columns, and this is a property elsewhere.
        has_key = ExpressionWrapper(Q(signing_key__isnull=False), BooleanField())
        return rows.annotate(has_signing_key=has_key) if self.action == "list" else rows

    def destroy(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Delete the log first, which may be long, a batch at a time."""
        notification = self.get_object()
        if any(blockers([notification])):
            raise Conflict(self.in_use_message)
        delete_logs([notification])
        return super().destroy(request, *args, **kwargs)
