"""Section 8: Too Many Requests, counted for each token."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from tests.api import Api
from tests.contract import bodies
from tokens.writes import issue


@pytest.fixture
def limited(api: Api, settings: Any) -> Api:
    """A token may make three requests a day: a window that no test outlives."""
    settings.RATE_LIMIT_SAMPLE = "3/d"
    return api


def test_requests_of_a_token_past_the_rate_are_too_many(limited: Api, user: User) -> None:
    answers = [limited.get("/api/v1/items") for _ in range(5)]
    assert [answer.status for answer in answers] == [200, 200, 200, 429, 429]
    refused = answers[3]
    assert refused.headers["content-type"] == "application/json"
    assert refused.body == {"data": None, "message": "Too Many Requests", "success": False}
    assert 1 <= int(refused.headers["retry-after"]) <= 24 * 60 * 60
    assert "retry-after" not in answers[2].headers
    other = limited.with_token(issue(name="other", user=user)[1]).get("/api/v1/items")
    assert (other.status, other.body) == (200, bodies.page([], total_items=0))


def test_requests_that_are_refused_for_another_reason_count(limited: Api) -> None:
    assert [limited.get("/api/v1/items?page=x").status for _ in range(4)] == [400, 400, 400, 429]


def test_requests_without_a_token_are_unauthorized_at_any_rate(limited: Api) -> None:
    answers = [limited.with_token("").get("/api/v1/items") for _ in range(5)]
    assert [(answer.status, answer.body) for answer in answers] == [(401, bodies.failure("Unauthorized"))] * 5
    answer = limited.get("/api/v1/items")
    assert (answer.status, answer.body) == (200, bodies.page([], total_items=0))
