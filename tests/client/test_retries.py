"""Which requests are sent again, when, and that a repeated one cannot do anything twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from relayer_client import NO_RETRIES, AsyncClient, Client, Retries, errors
from relayer_client._sync import transport
from tests.client.examples import TRANSACTION
from tests.client.scripted_server import AT_ONCE, DROP, Answer, Request, calling, ok, refused, scripted
from tests.servers import free_port

BUSY = refused(503, "database_unavailable", Retry_After="0")
PROXY = refused(503, "unavailable", Retry_After="0")
THROTTLED = refused(429, "throttled", Retry_After="0")
SIGNER = {"id": "s", "type": "plain", "config": {}}
SENT = {"value": 1, "to": TRANSACTION["to"]}


def send(client: Client) -> Any:
    return client.relayer("sender").send(to=TRANSACTION["to"], value=1)


def keys(requests: list[Request]) -> list[str | None]:
    return [request.headers.get("idempotency-key") for request in requests]


@pytest.mark.parametrize("failure", [DROP, BUSY, PROXY, THROTTLED, refused(502, "unavailable"), Answer(504, b"")])
def test_a_send_is_repeated_with_the_same_key_and_body(failure: Answer) -> None:
    with calling(failure, failure, ok(TRANSACTION)) as (server, client):
        assert send(client).value == 10**21
    assert len(set(keys(server.requests))) == 1
    assert None not in keys(server.requests)
    assert [json.loads(request.body) for request in server.requests] == [SENT] * 3


def test_an_asynchronous_send_is_repeated_alike() -> None:
    async def call(url: str) -> Any:
        async with AsyncClient(url, "t", retries=AT_ONCE) as client:
            return await client.relayer("sender").send(to=TRANSACTION["to"], value=1)

    with scripted(DROP, BUSY, ok(TRANSACTION)) as server:
        assert asyncio.run(call(server.url)).id == TRANSACTION["id"]
    assert len(set(keys(server.requests))) == 1
    assert [json.loads(request.body) for request in server.requests] == [SENT] * 3


def test_two_calls_have_two_keys_and_a_given_one_is_kept() -> None:
    with calling(ok(TRANSACTION)) as (server, client):
        send(client)
        send(client)
        client.relayer("sender").send(idempotency_key="invoice-4711", value=0)
    first, second, third = keys(server.requests)
    assert first != second
    assert third == "invoice-4711"


def test_a_send_that_is_never_answered_raises_with_its_key() -> None:
    with calling(DROP) as (server, client), pytest.raises(errors.ConnectionLost) as raised:
        send(client)
    assert keys(server.requests) == [raised.value.idempotency_key] * 5


CALLS: dict[str, Callable[[Client], Any]] = {
    "read": lambda client: client.get_signer("s"),
    "create": lambda client: client.create_signer(type="plain", config={}),
    "delete": lambda client: client.delete_signer("s"),
    "change": lambda client: client.update_relayer("r", name="n"),
    "sign": lambda client: client.relayer("r").sign("m"),
    "step": lambda client: client.relayer("r").speed_up("t"),
    "rotate": lambda client: client.rotate_token(),
    "cancel": lambda client: client.relayer("r").cancel("t"),
}
REPEATABLE = {"read", "create", "cancel"}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("failure", [DROP, PROXY], ids=["dropped", "proxy"])
def test_a_call_that_may_have_reached_the_service_is_repeated_if_safe(name: str, failure: Answer) -> None:
    with calling(failure) as (server, client), pytest.raises((errors.ConnectionLost, errors.Unavailable)):
        CALLS[name](client)
    assert len(server.requests) == (5 if name in REPEATABLE else 1)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("failure", [BUSY, THROTTLED], ids=["busy", "throttled"])
def test_a_call_that_changed_nothing_is_always_repeated(name: str, failure: Answer) -> None:
    with calling(failure) as (server, client), pytest.raises((errors.DatabaseUnavailable, errors.TooManyRequests)):
        CALLS[name](client)
    assert len(server.requests) == 5


@pytest.mark.parametrize("name", CALLS)
def test_a_refused_connection_is_tried_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(transport, "sleep", pauses.append)
    with Client(f"http://127.0.0.1:{free_port()}", "t") as client, pytest.raises(errors.ConnectionFailed):
        CALLS[name](client)
    assert len(pauses) == 4


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 500])
def test_other_errors_are_raised_at_once(status: int) -> None:
    with calling(refused(status, "some_code")) as (server, client), pytest.raises(errors.BY_STATUS[status]):
        send(client)
    assert len(server.requests) == 1


def test_the_service_says_how_long_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(transport, "sleep", pauses.append)
    answers = [refused(503, "busy", Retry_After="7"), refused(429, "throttled", Retry_After="2"), ok(TRANSACTION)]
    with calling(*answers) as (_server, client):
        send(client)
    assert pauses == [7.0, 2.0]


def test_a_slow_service_is_a_time_out() -> None:
    slow = Answer(200, b"", {"Content-Length": "10"})
    with calling(slow, timeout=0.05, retries=NO_RETRIES) as (_server, client), pytest.raises(errors.TimedOut):
        client.health()


def test_a_page_of_a_proxy_is_no_response_of_the_service() -> None:
    with calling(Answer(200, b"<html>")) as (_server, client), pytest.raises(errors.InvalidResponse, match="not JSON"):
        client.health()


@pytest.mark.parametrize(
    ("attempt", "retry_after", "least", "most"),
    [
        (1, None, 0.25, 0.5),
        (2, None, 0.5, 1.0),
        (4, None, 2.0, 4.0),
        (1, 0.0, 0.25, 0.5),
        (1, 30.0, 30.25, 30.5),
    ],
)
def test_pauses_double_with_jitter_above_what_the_service_asks(
    attempt: int, retry_after: float | None, least: float, most: float
) -> None:
    pauses = {Retries().pause(attempt, retry_after) for _ in range(50)}
    assert all(pause is not None and least <= pause <= most for pause in pauses)
    assert len(pauses) > 1


def test_pauses_are_bounded() -> None:
    retries = Retries(attempts=100)
    assert max(retries.pause(attempt) or 0 for attempt in range(1, 100)) <= 30.0
    assert retries.pause(100) is None
    assert retries.pause(1, 31.0) is None
