"""The OpenAPI document as it is served: generated once, and the same as it would be each time."""

from typing import Any

import pytest
from django.test import Client, RequestFactory
from drf_spectacular.views import SpectacularAPIView

from relayer_service.api.schema import view
from tests.concurrency import in_threads


@pytest.fixture(autouse=True)
def nothing_generated() -> None:
    view.generate.cache_clear()


def test_of_many_requests_one_generates_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = SpectacularAPIView.generator_class
    generated: list[int] = []
    parse: Any = generator.parse

    def counted(*args: Any) -> Any:
        generated.append(1)
        return parse(*args)

    monkeypatch.setattr(generator, "parse", counted)
    answers = in_threads(*[lambda: Client().get("/api/schema?version=2").content] * 8)
    assert len(generated) == 1
    assert len(set(answers)) == 1


def test_the_document_is_what_the_generator_returns(client: Client) -> None:
    generated = SpectacularAPIView.as_view()(RequestFactory().get("/api/schema")).render()
    served = client.get("/api/schema")
    assert served.content == generated.content
    headers = ("Content-Type", "Content-Disposition", "Vary")
    assert [served[name] for name in headers] == [generated[name] for name in headers]
