"""The base class of viewsets, and a mixin for each action."""

from typing import Any, ClassVar

from django.db import IntegrityError, connection, transaction
from django.db.models import ProtectedError, QuerySet
from django.http import HttpResponse
from django.utils.functional import cached_property
from rest_framework.exceptions import ParseError, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer
from rest_framework.viewsets import GenericViewSet

from relayer_service.api import envelope, idempotency
from relayer_service.api.error_codes import ErrorCode
from relayer_service.api.exceptions import Conflict, NotFound, UnknownPath, is_of_extension
from relayer_service.api.filters import ListFilter
from relayer_service.api.operations import extension_of, operation_of
from relayer_service.api.pagination import IGNORED_BODY
from relayer_service.api.parsers import MergePatchParser
from relayer_service.api.throttling import ChangeRateThrottle
from relayer_service.audit.recording import deleted, record
from relayer_service.storage.resources import MAX_IDENTIFIER_LENGTH

# Of /api/v1/signers/
PARTS_BEFORE_ID = 4
# Values of the header Content-Length.
NO_BODY = {None, "", "0"}
# A page with the largest possible rows would have tens of megabytes.
MAX_PAGE_BYTES = 8 * 2**20


class ResourceViewSet(GenericViewSet[Any]):
    """The actions of a resource, each with an `Operation`; `serializer_class` represents it in responses."""

    # The contract has no OPTIONS.
    http_method_names = ["get", "head", "post", "put", "patch", "delete"]
    lookup_field = "identifier"
    # An id may contain any character, including slashes.
    lookup_value_regex = r"[\s\S]+"
    list_filters: ClassVar[dict[str, ListFilter]] = {}
    # Of the operations that are not in the contract, of idempotency keys and of `list_filters`.
    extension: ClassVar[str] = ""
    # Query parameters of lists besides those of pages and `list_filters`.
    query_parameters: ClassVar[set[str]] = set()
    # By method, the actions for a resource whose id ends like a path below a resource (see `ResourceRouter`).
    fallthrough: ClassVar[dict[str, str]] = {}
    # May have a placeholder for the id.
    not_found_message: str

    @cached_property
    def operation(self) -> Any:
        """The `Operation` of the request; None if its method is not allowed."""
        return operation_of(self, self.action)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if self.operation is None or request.method not in {"POST", "PUT", "PATCH"}:
            return
        accepts_body = self.operation.schema.get("request", "any") is not None
        if request.stream is None and accepts_body and not self.operation.optional_body:
            raise ParseError("the body is empty", ErrorCode.EMPTY_BODY)
        if request.stream is not None and not accepts_body:
            raise ParseError("this operation accepts no body", ErrorCode.UNEXPECTED_BODY)

    def get_throttles(self) -> list[Any]:
        """Limit changes by extensions. The contract has no 429 for its own."""
        is_change = self.operation and self.operation.scope == "manage" and is_of_extension(self)
        return [ChangeRateThrottle()] if is_change else super().get_throttles()

    def http_method_not_allowed(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Raise `UnknownPath` for what looks like a path below a resource of an extension."""
        identifier = kwargs.get(self.lookup_url_kwarg or self.lookup_field, "")
        is_detail = "retrieve" in self.action_map.values() and extension_of(self, "retrieve")
        if is_detail and "/" in identifier.removesuffix("/"):
            raise UnknownPath
        return super().http_method_not_allowed(request, *args, **kwargs)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Add an ignored body to the logs of a response; render a page, which has its own, at once."""
        is_page = isinstance(getattr(response, "data", None), envelope.Page)
        if isinstance(response, Response) and not is_page and self.has_ignored_body:
            response.data = envelope.with_logs(response.data, [IGNORED_BODY])
        response = super().finalize_response(request, response, *args, **kwargs)
        if not is_page:
            return response
        if len(response.render().content) > MAX_PAGE_BYTES:
            fault = ValidationError({"per_page": [f"the page has more than {MAX_PAGE_BYTES} bytes: lower per_page"]})
            return self.finalize_response(request, self.handle_exception(fault), *args, **kwargs)
        # A response refers to itself: its rows would stay in memory until the garbage collector runs.
        response.data = None
        return response

    @property
    def has_ignored_body(self) -> bool:
        return self.request.META.get("CONTENT_LENGTH") not in NO_BODY and self.request.method in {"GET", "DELETE"}

    def paginated(self, queryset: QuerySet[Any]) -> Response:
        """Return a page of rows that belong to a resource, as `ListModelMixin.list` does of resources."""
        page = self.paginate_queryset(self.filter_queryset(queryset))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)

    def get_parsers(self) -> list[Any]:
        # There is no action yet, and no request while the OpenAPI document is generated.
        is_patch = getattr(self.request, "method", "") == "PATCH"
        return [*super().get_parsers(), *([MergePatchParser()] if is_patch else [])]

    def get_serializer_class(self) -> type[BaseSerializer[Any]]:
        request = self.operation.schema.get("request")
        is_serializer = isinstance(request, type) and issubclass(request, BaseSerializer)
        return request if is_serializer else super().get_serializer_class()

    def get_object(self) -> Any:
        """Return the resource of a path, whose trailing slash may be part of the id."""
        identifier: str
        if self.action in self.fallthrough.values():
            identifier = self.request.path_info.split("/", PARTS_BEFORE_ID)[PARTS_BEFORE_ID]
        else:
            identifier = self.kwargs[self.lookup_url_kwarg or self.lookup_field]
        rows = self.get_queryset()
        for candidate in dict.fromkeys([identifier, identifier.removesuffix("/")]):
            if (row := rows.filter(identifier=candidate).first()) is not None:
                self.check_object_permissions(self.request, row)
                return row
        if is_of_extension(self) and self._is_below(rows, identifier):
            raise UnknownPath
        raise NotFound(self.get_not_found_message().format(identifier))

    def get_not_found_message(self) -> str:
        return self.not_found_message

    @staticmethod
    def _is_below(rows: QuerySet[Any], path: str) -> bool:
        """Return whether a path that is no id continues one."""
        parts = path[: MAX_IDENTIFIER_LENGTH + 1].split("/")
        above = ["/".join(parts[:count]) for count in range(1, len(parts))]
        return bool(above) and rows.filter(identifier__in=above).exists()


class CreateMixin(ResourceViewSet):
    """Creates a resource. An `IntegrityError` means that the id is taken: no other constraint can fail."""

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
        """Save, in the transaction of `run_idempotently` if there is one, which a conflict rolls back."""
        try:
            serializer.save()
        except IntegrityError:
            raise Conflict(self.id_taken_message, ErrorCode.ID_TAKEN) from None
        return envelope.WithLogs(serializer.data, serializer.warnings)


class LockingMixin(ResourceViewSet):
    """Locks the row in actions that change it, so that no concurrent update is lost."""

    locking_actions: ClassVar[set[str]] = {"partial_update", "destroy"}

    def get_queryset(self) -> QuerySet[Any]:
        rows = super().get_queryset()
        if self.action not in self.locking_actions or not connection.in_atomic_block:
            return rows
        return rows.select_for_update(of=("self",), no_key=self.action != "destroy")


class PartialUpdateMixin(LockingMixin):
    def partial_update(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        # Not `partial`, which would make the fields of nested objects optional too.
        serializer: Any = self.get_serializer(data=request.data)
        # Before the row is locked: a slow request body must not block other updates.
        serializer.is_valid(raise_exception=True)
        with transaction.atomic():
            serializer.instance = self.get_object()
            serializer.save()
        return Response(envelope.WithLogs(serializer.data, serializer.warnings))


class DestroyMixin(LockingMixin):
    """Deletes a resource that nothing refers to."""

    deleted_message: str
    in_use_message: str

    def destroy(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        try:
            with transaction.atomic():
                logs = self.perform_destroy(self.get_object())
        except (ProtectedError, IntegrityError):
            raise Conflict(self.in_use_message, ErrorCode.IN_USE) from None
        return Response(envelope.WithLogs(self.deleted_message, logs))

    def perform_destroy(self, instance: Any) -> list[str]:
        """Record and delete a locked row; return the log messages of the response."""
        record([deleted(instance)])
        instance.delete()
        return []
