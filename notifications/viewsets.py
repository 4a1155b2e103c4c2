from __future__ import annotations

from drf_spectacular.utils import extend_schema, extend_schema_view

from notifications.models import Notification
from notifications.schema import UPDATE_NOTIFICATION
from notifications.serializers import NotificationSerializer, UpdateNotificationSerializer
from relayer_service.api.viewsets import PartialUpdateMixin, ResourceViewSet


@extend_schema_view(
    partial_update=extend_schema(
        operation_id="update_notification", summary="Update a notification", **UPDATE_NOTIFICATION
    )
)
class NotificationViewSet(PartialUpdateMixin, ResourceViewSet):
    """Change a notification: what is sent is changed, what is left out stays as it is."""

    queryset = Notification.objects.all()
    lookup_url_kwarg = "notification_id"
    serializer_class = NotificationSerializer
    request_serializer_classes = {"partial_update": UpdateNotificationSerializer}
    not_found_message = "Notification not found"
    tags = ["Notifications"]
