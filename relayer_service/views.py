"""What the views of every resource share."""

from typing import Any

from rest_framework.exceptions import ParseError
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request


class ResourceView(GenericAPIView[Any]):
    """A view of the contract: the methods it defines and no others, and no body that is missing."""

    http_method_names = ["get", "head", "post", "patch"]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if request.method in {"POST", "PATCH"} and request.stream is None:
            raise ParseError("the body is empty")
