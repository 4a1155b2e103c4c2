"""Paths of the API: on a viewset with a route for one resource and an action on it, and those of the service."""

import pytest
from django.urls import include, path, resolve
from drf_spectacular.utils import extend_schema_view
from rest_framework.decorators import action
from rest_framework.mixins import RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from relayer_service.api.operations import operation
from relayer_service.api.routers import ResourceRouter
from relayer_service.api.viewsets import PartialUpdateMixin
from tests.api import Api
from tests.contract import bodies
from tests.sample.models import Item
from tests.sample.viewsets import ItemViewSet

pytestmark = pytest.mark.urls(__name__)


@extend_schema_view(
    retrieve=operation("get_box", "Get a box", in_contract=True, scope="read"),
    partial_update=operation("update_box", "Update a box", in_contract=True, scope="manage"),
)
class BoxViewSet(RetrieveModelMixin, PartialUpdateMixin, ItemViewSet):
    """A resource with all that resources may have."""

    lookup_url_kwarg = "box_id"
    not_found_message = "Box {} not found"

    @operation("open_box", "Open a box", in_contract=True, scope="manage")
    @action(detail=True, methods=["post"])
    def lid(self, request: Request, box_id: str) -> Response:
        return Response({"opened": box_id})


router = ResourceRouter()
router.register("boxes", BoxViewSet, basename="box")
urlpatterns = [path("api/v1/", include(router.urls))]


def make(*identifiers: str) -> None:
    for identifier in identifiers:
        Item.objects.create(identifier=identifier, name=f"Box {identifier}")


@pytest.mark.parametrize("identifier", ["a/b", "lid", "a/lid/b", "a\nb", "é"])
def test_a_resource_is_found_by_any_id(api: Api, identifier: str) -> None:
    make(identifier)
    answer = api.get(f"/api/v1/boxes/{identifier}")
    assert (answer.status, answer.body) == (200, bodies.success({"id": identifier, "name": f"Box {identifier}"}))


@pytest.mark.parametrize("end", ["", "/"])
@pytest.mark.parametrize("identifier", ["a/b", "lid"])
def test_the_path_of_an_action_is_not_that_of_a_resource(api: Api, identifier: str, end: str) -> None:
    make(identifier, f"{identifier}/lid")
    answer = api.post(f"/api/v1/boxes/{identifier}/lid{end}", {})
    assert (answer.status, answer.body) == (200, bodies.success({"opened": identifier}))


def test_an_id_is_tried_with_its_last_slash_and_then_without(api: Api) -> None:
    make("a", "b", "b/")
    found = [api.get(f"/api/v1/boxes/{name}").body["data"]["id"] for name in ("a", "a/", "b", "b/")]
    assert found == ["a", "a", "b", "b/"]


@pytest.mark.parametrize("identifier", ["none", "a//", "a%00"])
def test_an_unknown_id_is_not_found(api: Api, identifier: str) -> None:
    make("a")
    answer = api.get(f"/api/v1/boxes/{identifier}")
    shown = identifier.replace("%00", "\0")
    assert (answer.status, answer.body) == (404, bodies.failure(f"Box {shown} not found"))


ROUTES = {
    "signers": "signer-list",
    "notifications/a": "notification-detail",
    "notifications/a/rpc": "notification-detail",
    "relayers": "relayer-list",
    "relayers/a/b/rpc": "relayer-rpc",
}


def test_each_path_has_its_route_and_reports_its_methods(api: Api) -> None:
    methods = {"boxes": "GET, HEAD, POST", "boxes/a": "GET, HEAD, PATCH", "boxes/a/lid": "POST"}
    answers = {location: api("PUT", f"/api/v1/{location}", {}) for location in methods}
    assert {location: answer.headers["allow"] for location, answer in answers.items()} == methods
    assert {answer.status for answer in answers.values()} == {405}
    for end in ("", "/"):
        paths = {location: f"/api/v1/{location}{end}" for location in ROUTES}
        assert {name: resolve(path, "relayer_service.urls").view_name for name, path in paths.items()} == ROUTES
