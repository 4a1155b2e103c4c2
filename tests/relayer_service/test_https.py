"""Where HTTPS is insisted on: calls with a token are refused over plain HTTP, pages are redirected."""

import ipaddress
from typing import Any

import pytest
from django.test import Client


@pytest.fixture(autouse=True)
def https_only(settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True


HTTPS_IS_REQUIRED = {
    "data": None,
    "message": "Bad Request",
    "success": False,
    "metadata": {"logs": [{"level": "log", "message": "HTTPS is required"}]},
}


def test_an_api_call_over_plain_http_is_refused_in_the_envelope(client: Client, token: str) -> None:
    answer = client.post("/api/v1/items", {"id": "a", "name": "b"}, "application/json", headers=bearer(token))
    assert (answer.status_code, answer.json()) == (400, HTTPS_IS_REQUIRED)
    assert client.get("/api/v1/items", headers=bearer(token), secure=True).json()["data"] == []


@pytest.mark.parametrize("allowed", [[], [ipaddress.ip_network("127.0.0.1")]])
def test_a_token_for_the_metrics_is_refused_over_plain_http(
    client: Client, token: str, settings: Any, allowed: Any
) -> None:
    settings.METRICS_ALLOW = allowed
    answer = client.get("/metrics", headers=bearer(token))
    assert (answer.status_code, answer.json()) == (400, HTTPS_IS_REQUIRED)
    assert client.get("/metrics", headers=bearer(token), secure=True).status_code == 200
    # They need no HTTPS where they need no token.
    assert client.get("/metrics").status_code == (200 if allowed else 401)


def test_a_proxy_that_is_trusted_tells_of_https(client: Client, token: str, settings: Any) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    headers = bearer(token) | {"X-Forwarded-Proto": "https"}
    assert client.get("/api/v1/items", headers=headers).status_code == 400
    settings.TRUSTED_PROXIES = [ipaddress.ip_network("127.0.0.0/8")]
    assert client.get("/api/v1/items", headers=headers).status_code == 200


@pytest.mark.django_db
def test_a_page_is_redirected(client: Client) -> None:
    answer = client.get("/admin/login/")
    assert (answer.status_code, answer["Location"]) == (301, "https://testserver/admin/login/")


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
