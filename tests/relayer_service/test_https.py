"""Where HTTPS is insisted on: the API refuses plain HTTP, pages are redirected."""

import ipaddress
from typing import Any

import pytest
from django.test import Client


@pytest.fixture(autouse=True)
def https_only(settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True


def test_an_api_call_over_plain_http_is_refused_in_the_envelope(client: Client, token: str) -> None:
    answer = client.post("/api/v1/items", {"id": "a", "name": "b"}, "application/json", headers=bearer(token))
    assert (answer.status_code, answer.json()) == (
        400,
        {
            "data": None,
            "message": "Bad Request",
            "success": False,
            "metadata": {"logs": [{"level": "log", "message": "HTTPS is required"}]},
        },
    )


def test_an_api_call_over_https_is_answered(client: Client, token: str) -> None:
    assert client.get("/api/v1/items", headers=bearer(token), secure=True).json()["data"] == []


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
