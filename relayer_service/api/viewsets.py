"""What the views of every resource share."""

from http import HTTPStatus
from typing import Any

from django.db import IntegrityError, transaction
from rest_framework.exceptions import ParseError
from rest_framework.generics import GenericAPIView
from rest_framework.mixins import CreateModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from relayer_service.api.exceptions import Conflict, NotFound


class ResourceView(GenericAPIView[Any]):
    """A view of the contract: the methods it defines and no others, and no body that is missing."""

    http_method_names = ["get", "head", "post", "patch"]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        has_body = request.method in {"POST", "PATCH"} and request.method in self.allowed_methods
        if has_body and request.stream is None:
            raise ParseError("the body is empty")


class ResourceCreateMixin(CreateModelMixin, ResourceView):
    """Answer POST by creating a resource; of two that want the same id, the database lets one in."""

    create_serializer_class: type[Serializer[Any]]
    id_taken_message: str

    def post(self, request: Request) -> Response:
        serializer = self.create_serializer_class(data=request.data)
        serializer.is_valid(raise_exception=True)
        try:
            # One INSERT is its own transaction: a conflict leaves nothing behind, and two round trips are saved.
            resource = serializer.save()
        except IntegrityError:
            raise Conflict(self.id_taken_message) from None
        return Response(serializer.to_representation(resource), status=HTTPStatus.CREATED)


class ResourceUpdateMixin(ResourceView):
    """Answer PATCH by changing a resource; its row is locked, so that of two changes at once neither is lost."""

    not_found_message: str

    def patch(self, request: Request, identifier: str) -> Response:
        serializer = self.get_serializer(data=request.data)
        # Before the row is locked: nobody shall wait for a body that comes slowly.
        serializer.is_valid(raise_exception=True)
        with transaction.atomic():
            resource = serializer.update(self.lock(identifier), serializer.validated_data)
        return Response(serializer.to_representation(resource))

    def lock(self, identifier: str) -> Any:
        """Find the resource of a path; a slash at its end may be a part of the id, or just end the path."""
        rows = self.get_queryset().select_for_update(no_key=True)
        for wanted in dict.fromkeys([identifier, identifier.removesuffix("/")]):
            # PostgreSQL takes no NUL, so that no id has one.
            found = None if "\0" in wanted else rows.filter(identifier=wanted).first()
            if found is not None:
                return found
        raise NotFound(self.not_found_message)
