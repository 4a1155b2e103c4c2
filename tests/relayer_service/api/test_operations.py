"""A mistake in the declaration of an operation fails when the routes are built, before a request."""

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from relayer_service.api.operations import operation
from relayer_service.api.routers import ResourceRouter
from relayer_service.api.viewsets import ResourceViewSet


@pytest.mark.parametrize("scopes", [{"scope": "reed"}, {"scope": ""}, {"scope": "read", "limited_scope": "sent"}])
def test_a_scope_must_exist(scopes: dict[str, Any]) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^list_boxes: unknown scope\. Use one of: read, manage, "):
        operation("list_boxes", "List boxes", **scopes)


@pytest.mark.parametrize(
    ("declared", "extension"),
    [
        (None, "lifecycle"),
        (operation("list_boxes", "List boxes", scope="read"), ""),
        (operation("list_boxes", "List boxes", scope="read"), "livecycle"),
    ],
)
def test_an_action_belongs_to_the_contract_or_to_an_extension(declared: Any, extension: str) -> None:
    def list_boxes(view: Any, request: Any) -> None: ...

    attributes = {"list": declared(list_boxes) if declared else list_boxes, "extension": extension}
    router = ResourceRouter()
    router.register("boxes", type("BoxViewSet", (ResourceViewSet,), attributes), basename="box")
    with pytest.raises(ImproperlyConfigured, match=r"^BoxViewSet\.list needs an operation"):
        assert router.urls
