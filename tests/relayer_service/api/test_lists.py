"""Lists: the classes and methods of REST framework, which ours override."""

import gc
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.generics import GenericAPIView

from relayer_service.api.renderers import EnvelopeRenderer
from tests.api import Api
from tests.contract import bodies
from tests.relayers import factories
from tests.sample.models import Item
from tokens.writes import issue

STEPS = ["filter_queryset", "paginate_queryset", "get_serializer", "get_paginated_response", "render"]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps that are taken, in order, with the arguments of `get_serializer` checked."""
    taken: list[str] = []

    def spy(owner: type, name: str) -> Any:
        original = getattr(owner, name)

        def step(self: Any, *args: Any, **kwargs: Any) -> Any:
            assert name != "get_serializer" or kwargs == {"many": True}
            taken.append(name)
            return original(self, *args, **kwargs)

        return step

    for name in STEPS:
        owner = EnvelopeRenderer if name == "render" else GenericAPIView
        monkeypatch.setattr(owner, name, spy(owner, name))
    return taken


@pytest.mark.django_db
@pytest.mark.parametrize(
    "path", ["signers", "relayers", "notifications", "fee-tokens", "networks", "{}/transactions", "{}/deliveries"]
)
def test_a_list_takes_the_steps_of_rest_framework(user: User, settings: Any, steps: list[str], path: str) -> None:
    settings.EXTENSIONS = ["lifecycle", "transactions"]
    reader = Api(issue(name="reader", user=user, scopes=["read"])[1])
    owner = {
        "{}/transactions": lambda: f"relayers/{factories.relayer().identifier}",
        "{}/deliveries": lambda: f"notifications/{factories.notification().identifier}",
    }.get(path, str)()
    answer = reader.get(f"/api/v1/{path.format(owner)}")
    assert (answer.status, "pagination" in answer.body) == (200, True)
    assert steps == STEPS


@pytest.mark.django_db
def test_the_rows_of_a_page_are_freed_with_its_response(api: Api) -> None:
    shown = [{"id": "item-1", "name": "freed"}]
    row = tuple(shown[0].values())
    Item.objects.create(identifier="item-1", name="freed")
    gc.collect()
    gc.disable()
    try:
        assert api.get("/api/v1/items").body == bodies.page(shown, total_items=1)
        objects = [each for each in gc.get_objects() if type(each) in {list, tuple}]
    finally:
        gc.enable()
    assert [each for each in objects if each in (shown, row) and each is not shown and each is not row] == []
