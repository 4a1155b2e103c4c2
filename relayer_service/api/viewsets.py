"""What the viewsets of all resources share. A viewset is the sum of the mixins whose actions it offers."""

from http import HTTPStatus
from typing import Any, ClassVar

from django.db import IntegrityError, connection, transaction
from django.db.models import ProtectedError, QuerySet
from django.http import HttpResponse
from rest_framework.exceptions import ParseError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer, Serializer
from rest_framework.viewsets import GenericViewSet

from relayer_service.api import envelope, idempotency
from relayer_service.api.exceptions import Conflict, NotFound
from relayer_service.api.filters import ListFilter
from relayer_service.audit.recording import deleted, record

# Of /api/v1/signers/
PARTS_BEFORE_ID = 4


class ResourceViewSet(GenericViewSet[Any]):
    """The actions on a resource, which is found by the id that callers know.

    `serializer_class` shows it in answers; `request_serializer_classes` read the bodies of actions that take one.
    """

    # No OPTIONS: the contract has none.
    http_method_names = ["get", "head", "post", "put", "patch", "delete"]
    lookup_field = "identifier"
    # An id may hold any character, slashes included.
    lookup_value_regex = r"[\s\S]+"
    request_serializer_classes: ClassVar[dict[str, type[Serializer[Any]]]] = {}
    # The extensions of actions that are not the contract's: without its extension an action has no route.
    action_extensions: ClassVar[dict[str, str]] = {}
    # The scope that a token needs for an action; for one of the contract, a token that has scopes.
    action_scopes: ClassVar[dict[str, str]] = {}
    # The scope that allows an action too, with the relayers that the token is limited to.
    limited_scopes: ClassVar[dict[str, str]] = {}
    # Actions that take an Idempotency-Key, each with the extension without which the header is ignored.
    idempotent_actions: ClassVar[dict[str, str]] = {}
    # The query parameters that narrow a list, and the extension without which they are ignored.
    list_filters: ClassVar[dict[str, ListFilter]] = {}
    filter_extension: ClassVar[str] = ""
    # Errors of an action besides those of all, for the OpenAPI document.
    action_errors: ClassVar[dict[str, dict[HTTPStatus, str]]] = {}
    # Actions that take no body.
    actions_without_body: ClassVar[set[str]] = set()
    # By method, the actions of a resource whose id ends like a path below a resource (see `ResourceRouter`).
    passed_on: ClassVar[dict[str, str]] = {}
    # With a place for the id, if it shows it.
    not_found_message: str

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        has_body = request.method in {"POST", "PUT", "PATCH"} and request.method in self.allowed_methods
        if has_body and request.stream is None and self.action not in self.actions_without_body:
            raise ParseError("the body is empty")

    def get_serializer_class(self) -> type[BaseSerializer[Any]]:
        return self.request_serializer_classes.get(self.action) or super().get_serializer_class()

    def get_object(self) -> Any:
        """Return the resource of a path; a slash at its end may be a part of the id, or just end the path."""
        identifier: str = self.kwargs[self.lookup_url_kwarg or self.lookup_field]
        if self.action in self.passed_on.values():
            # All that follows the path of the list.
            identifier = self.request.path_info.split("/", PARTS_BEFORE_ID)[PARTS_BEFORE_ID]
        rows = self.get_queryset()
        for wanted in dict.fromkeys([identifier, identifier.removesuffix("/")]):
            found = rows.filter(identifier=wanted).first()
            if found is not None:
                self.check_object_permissions(self.request, found)
                return found
        raise NotFound(self.not_found_message.format(identifier))


class CreateMixin(ResourceViewSet):
    """Creates a resource; of two that want the same id, the database lets one in.

    For a model of which callers can break no other constraint, and whose serializer saves one row.
    """

    id_taken_message: str

    def create(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        serializer_class: Any = self.get_serializer_class()
        in_transaction = not serializer_class.write_class.inserts_one_row
        return idempotency.run_idempotently(self, self._valid, self._create, in_transaction=in_transaction)

    def _valid(self) -> BaseSerializer[Any]:
        serializer = self.get_serializer(data=self.request.data)
        serializer.is_valid(raise_exception=True)
        return serializer

    def _create(self, serializer: Any) -> envelope.WithLogs:
        """Save, in the transaction that `run_idempotently` has begun if one is needed; a conflict ends it."""
        try:
            serializer.save()
        except IntegrityError:
            raise Conflict(self.id_taken_message) from None
        return envelope.WithLogs(serializer.data, serializer.warnings)


class LockingMixin(ResourceViewSet):
    """Locks the row of an action that changes it, so that of two changes at once neither is lost."""

    locking_actions: ClassVar[set[str]] = {"partial_update", "destroy"}

    def get_queryset(self) -> QuerySet[Any]:
        rows = super().get_queryset()
        if self.action not in self.locking_actions or not connection.in_atomic_block:
            return rows
        # Only the row itself, not what it refers to.
        return rows.select_for_update(of=("self",), no_key=self.action != "destroy")


class PartialUpdateMixin(LockingMixin):
    """Changes a resource."""

    def partial_update(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        # Its own fields are optional. As `partial`, those of the objects inside it would be too.
        serializer: Any = self.get_serializer(data=request.data)
        # Before the row is locked: a body that comes slowly must not hold up other changes.
        serializer.is_valid(raise_exception=True)
        with transaction.atomic():
            serializer.instance = self.get_object()
            serializer.save()
        return Response(envelope.WithLogs(serializer.data, serializer.warnings))


class DestroyMixin(LockingMixin):
    """Deletes a resource that nothing refers to, and says so."""

    deleted_message: str
    in_use_message: str

    def destroy(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        try:
            with transaction.atomic():
                logs = self.perform_destroy(self.get_object())
        except (ProtectedError, IntegrityError):
            raise Conflict(self.in_use_message) from None
        return Response(envelope.WithLogs(self.deleted_message, logs))

    def perform_destroy(self, instance: Any) -> list[str]:
        """Record and delete a row that is locked; return the log messages of the answer."""
        record([deleted(instance)])
        instance.delete()
        return []
