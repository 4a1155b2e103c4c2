from __future__ import annotations

from http import HTTPStatus

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from notifications.models import Notification
from notifications.schema import UPDATE_NOTIFICATION
from notifications.serializers import UpdateNotificationSerializer
from relayer_service.api.viewsets import ResourceUpdateMixin

NOT_FOUND = "Notification not found"


class NotificationView(ResourceUpdateMixin):
    """Change a notification: what is sent is changed, what is left out stays as it is."""

    queryset = Notification.objects.all()
    serializer_class = UpdateNotificationSerializer
    not_found_message = NOT_FOUND
    tags = ["Notifications"]
    error_messages = {"PATCH": {HTTPStatus.NOT_FOUND: NOT_FOUND}}

    @extend_schema(operation_id="update_notification", summary="Update a notification", **UPDATE_NOTIFICATION)
    def patch(self, request: Request, notification_id: str) -> Response:
        return super().patch(request, notification_id)
