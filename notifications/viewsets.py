from typing import Any

from django.db import transaction
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema_view
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from notifications.delivery.deleting import delete_logs, drop_deliveries, is_in_use
from notifications.emitting import send_test_event
from notifications.models import Delivery, Notification
from notifications.replay import replay
from notifications.schema import notifications as schema
from notifications.serializers import (
    DELIVERY_FILTERS,
    CreateNotificationSerializer,
    DeliverySerializer,
    FullDeliverySerializer,
    ManagedNotificationSerializer,
    UpdateManagedNotificationSerializer,
    UpdateNotificationSerializer,
)
from relayer_service import extensions
from relayer_service.api import idempotency, jobs
from relayer_service.api.error_codes import ErrorCode
from relayer_service.api.exceptions import Conflict, NotFound
from relayer_service.api.filters import apply_filters, prefix_filter
from relayer_service.api.operations import operation
from relayer_service.api.pagination import CursorPagination
from relayer_service.api.viewsets import CreateMixin, DestroyMixin, LockingMixin, PartialUpdateMixin, ResourceViewSet
from relayer_service.audit.recording import acted, deleted, record
from relayer_service.storage.newest import newest_with

# None of the changes affects what spending rules rest on.
MANAGE: Any = {"scope": "manage", "within_rules": {*CreateNotificationSerializer._declared_fields, "filter"}}
IN_PROGRESS = "Delivery is in progress"
DISABLED = "Notification is disabled"
NOT_FOUND_IN_CONTRACT = "Notification not found"
DELIVERY_NOT_FOUND = "Delivery with ID {} not found"


class DeliveryPagination(CursorPagination):
    columns = ("created_at", "id")


@extend_schema_view(
    list=operation("list_notifications", "List notifications", schema.NOTIFICATION, scope="read"),
    create=operation("create_notification", "Create a notification", schema.CREATE, **MANAGE, idempotent=True),
    retrieve=operation("get_notification", "Get a notification", schema.NOTIFICATION, scope="read"),
    partial_update=operation(
        "update_notification",
        "Update a notification",
        schema.UPDATE,
        in_contract=True,
        **MANAGE,
        errors={404: NOT_FOUND_IN_CONTRACT},
    ),
)
class NotificationViewSet(
    ListModelMixin, CreateMixin, RetrieveModelMixin, PartialUpdateMixin, DestroyMixin, ResourceViewSet
):
    """Webhooks, and their deliveries."""

    queryset = Notification.objects.filter(type=Notification.Type.WEBHOOK)
    lookup_url_kwarg = "notification_id"
    # Of the operations of the extension; the contract has `partial_update` alone.
    serializer_class = ManagedNotificationSerializer
    locking_actions = LockingMixin.locking_actions | {"test"}
    list_filters = {"q": prefix_filter("identifier")}
    extension = "lifecycle"
    id_taken_message = "Notification with this ID already exists"
    not_found_message = "Notification with ID {} not found"
    deleted_message = "Notification deleted successfully"
    in_use_message = "Notification is in use by a relayer"
    tags = ["Notifications"]

    def get_serializer_class(self) -> type[BaseSerializer[Any]]:
        if self.action != "partial_update":
            return super().get_serializer_class()
        is_managed = extensions.is_enabled("lifecycle")
        return UpdateManagedNotificationSerializer if is_managed else UpdateNotificationSerializer

    def get_not_found_message(self) -> str:
        return NOT_FOUND_IN_CONTRACT if self.action == "partial_update" else super().get_not_found_message()

    def get_queryset(self) -> QuerySet[Any]:
        rows = super().get_queryset()
        # Lists read columns only, and this is a property elsewhere.
        has_key = ExpressionWrapper(Q(signing_key__isnull=False), BooleanField())
        return rows.annotate(has_signing_key=has_key) if self.action == "list" else rows

    @operation("list_deliveries", "List the deliveries of a notification", schema.DELIVERIES, scope="read")
    @action(
        detail=True,
        serializer_class=DeliverySerializer,
        list_filters=DELIVERY_FILTERS,
        pagination_class=DeliveryPagination,
    )
    def deliveries(self, request: Request, **kwargs: Any) -> Response:
        """Return the deliveries, newest first."""
        order = ("-notification_id", "-created_at", "-id")
        return self.paginated(newest_with(Delivery.objects.all(), "notification_id", self.get_object().pk, *order))

    # As all IDs of deliveries begin: `deliveries/replay` is another path.
    @operation(
        "get_delivery",
        "Get a delivery",
        schema.DELIVERY,
        scope="read",
        errors={404: DELIVERY_NOT_FOUND.format("msg_1")},
    )
    @action(detail=True, url_path="deliveries/(?P<delivery_id>msg_[^/]+)", serializer_class=FullDeliverySerializer)
    def delivery(self, request: Request, delivery_id: str, **kwargs: Any) -> Response:
        """Return a delivery with its payload, headers and attempts."""
        return Response(self.get_serializer(self._delivery(delivery_id)).data)

    def _delivery(self, delivery_id: str) -> Delivery:
        delivery: Delivery | None = self.get_object().deliveries.filter(identifier=delivery_id).first()
        if delivery is None:
            raise NotFound(DELIVERY_NOT_FOUND.format(delivery_id))
        return delivery

    @operation("replay_deliveries", "Send many deliveries again", schema.REPLAY_DELIVERIES, **MANAGE, idempotent=True)
    @action(detail=True, methods=["post"], url_path="deliveries/replay")
    def replay_deliveries(self, request: Request, **kwargs: Any) -> HttpResponse:
        """Start a job that sends the deliveries of a filter again; those in flight are skipped."""
        return idempotency.run_idempotently(self, self._valid, self._start_replay)

    def _start_replay(self, serializer: Any) -> Any:
        rows = apply_filters(self.get_object().deliveries.all(), DELIVERY_FILTERS, serializer.validated_data["filter"])
        return jobs.start(self.request, "replay_deliveries", rows)

    @operation("replay_delivery", "Send a delivery again", schema.REPLAY, **MANAGE, errors={409: IN_PROGRESS})
    @action(detail=True, methods=["post"], url_path="deliveries/(?P<delivery_id>[^/]+)/replay")
    def replay(self, request: Request, delivery_id: str, **kwargs: Any) -> Response:
        """Send a delivery again from the start of the schedule, with the same ID and body."""
        delivery = self._delivery(delivery_id)
        with transaction.atomic():
            if not replay(Delivery.objects.filter(pk=delivery.pk)):
                raise Conflict(IN_PROGRESS)
            record([acted(delivery, "Replayed.")])
            delivery.refresh_from_db()
        return Response(DeliverySerializer(delivery).data)

    @operation(
        "test_notification", "Send a test event", schema.TEST, **MANAGE, idempotent=True, errors={409: DISABLED}
    )
    @action(detail=True, methods=["post"])
    def test(self, request: Request, **kwargs: Any) -> HttpResponse:
        return idempotency.run_idempotently(self, lambda: None, self._send_test)

    def _send_test(self, _: None) -> Any:
        # Locked, so that it still exists when the delivery is created.
        sent = send_test_event(self.get_object())
        if sent is None:
            raise Conflict(DISABLED)
        return DeliverySerializer(sent).data

    @operation("delete_notification", "Delete a notification", **MANAGE)
    def destroy(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Delete a notification and its deliveries. `metadata.logs` reports how many pending ones were dropped."""
        # The log may be long: it is deleted first, in batches.
        notification = self.get_object()
        if is_in_use([notification]):
            raise Conflict(self.in_use_message, ErrorCode.IN_USE)
        delete_logs([notification])
        return super().destroy(request, *args, **kwargs)

    def perform_destroy(self, instance: Notification) -> list[str]:
        dropped = drop_deliveries(instance)
        record([deleted(instance, dropped)])
        instance.delete()
        return [dropped] if dropped else []
