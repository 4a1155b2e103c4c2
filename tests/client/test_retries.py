"""Which requests are sent again, when, and that a repeated one cannot do anything twice."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from relayer_client import NO_RETRIES, AsyncClient, Client, Retries, errors
from relayer_client._sync import transport
from tests.client.examples import TRANSACTION
from tests.client.scripted_server import AT_ONCE, DROP, Answer, Request, calling, ok, refused, scripted
from tests.servers import free_port

BUSY = refused(503, "busy", Retry_After="0")
DATABASE = refused(503, "database_unavailable", Retry_After="0")
PROXY = refused(503, "unavailable", Retry_After="0")
THROTTLED = refused(429, "throttled", Retry_After="0")
SIGNER = {"id": "s", "type": "plain", "config": {}}
SENT = {"value": 1, "to": TRANSACTION["to"]}


def send(client: Client) -> Any:
    return client.relayer("sender").send(to=TRANSACTION["to"], value=1)


def keys(requests: list[Request]) -> list[str | None]:
    return [request.headers.get("idempotency-key") for request in requests]


@pytest.mark.parametrize("failure", [DROP, BUSY, DATABASE, PROXY, THROTTLED, Answer(504, b"")])
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
    assert [(request.headers["idempotency-key"], json.loads(request.body)) for request in server.requests] == [
        (keys(server.requests)[0], SENT)
    ] * 3


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


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        (httpx.ReadError("lost"), errors.ConnectionLost),
        (httpx.ReadTimeout("late"), errors.ConnectionLost),
        (httpx.Response(502), errors.ConnectionLost),
        (httpx.Response(503, headers={"Error-Code": "database_unavailable"}), errors.ConnectionLost),
        (httpx.Response(429), errors.ConnectionFailed),
        (httpx.Response(503, headers={"Error-Code": "busy"}), errors.ConnectionFailed),
        (httpx.ConnectError("refused"), errors.ConnectionFailed),
    ],
)
def test_a_refused_connection_does_not_hide_an_attempt_that_may_have_arrived(
    first: Exception | httpx.Response, kind: type[errors.RequestFailed]
) -> None:
    attempts = iter([first])

    def attempt(request: httpx.Request) -> httpx.Response:
        result = next(attempts, httpx.ConnectError("refused"))
        if isinstance(result, Exception):
            raise result
        return result

    http = httpx.Client(transport=httpx.MockTransport(attempt))
    with http, pytest.raises(errors.RequestFailed) as raised:
        Client("http://relayer.example.com", "t", retries=AT_ONCE, http=http).relayer("sender").send(value=0)
    assert type(raised.value) is kind
    assert raised.value.may_have_been_carried_out == (kind is errors.ConnectionLost)
    assert isinstance(raised.value.__cause__, httpx.ConnectError)


CALLS: dict[str, Callable[[Client], Any]] = {
    "read": lambda client: client.get_signer("s"),
    "create": lambda client: client.create_signer(type="plain", config={}),
    "delete": lambda client: client.delete_signer("s"),
    "change": lambda client: client.update_relayer("r", name="n"),
    "sign": lambda client: client.relayer("r").sign("m"),
    "step": lambda client: client.relayer("r").speed_up(TRANSACTION["id"]),
    "speed": lambda client: client.relayer("r").speed_up(TRANSACTION["id"], speed="fastest", gas_price=None),
    "prices": lambda client: client.relayer("r").speed_up(TRANSACTION["id"], gas_price=10**9),
    "rotate": lambda client: client.rotate_token(),
    "cancel": lambda client: client.relayer("r").cancel(TRANSACTION["id"]),
}
REPEATABLE = {"read", "create", "cancel", "prices"}


@pytest.mark.parametrize("failure", [DROP, PROXY, DATABASE], ids=["dropped", "proxy", "database"])
def test_a_call_that_may_have_reached_the_service_is_repeated_if_safe(failure: Answer) -> None:
    with calling(failure) as (server, client):
        for name, call in CALLS.items():
            server.requests.clear()
            with pytest.raises((errors.ConnectionLost, errors.Unavailable)) as raised:
                call(client)
            assert (name, len(server.requests)) == (name, 5 if name in REPEATABLE else 1)
            assert raised.value.may_have_been_carried_out == (name != "read")


@pytest.mark.parametrize("failure", [BUSY, THROTTLED], ids=["busy", "throttled"])
def test_a_call_that_changed_nothing_is_always_repeated(failure: Answer) -> None:
    with calling(failure) as (server, client):
        for name, call in CALLS.items():
            server.requests.clear()
            with pytest.raises((errors.Unavailable, errors.TooManyRequests)) as raised:
                call(client)
            assert (name, len(server.requests)) == (name, 5)
            assert not raised.value.may_have_been_carried_out


@pytest.mark.parametrize("lost", [DROP, DATABASE, Answer(502, b"")], ids=["dropped", "database", "proxy"])
def test_a_later_refusal_does_not_hide_an_attempt_that_may_have_arrived(lost: Answer) -> None:
    for status in (400, 401, 403, 404, 409, 429):
        script = (lost, refused(status, "some_code"))
        with calling(*script) as (_server, client), pytest.raises(errors.ApiError) as raised:
            send(client)
        error = pickle.loads(pickle.dumps(raised.value))
        assert (error.status, error.may_have_been_carried_out) == (status, True)
        assert str(error) == f"The call may have been carried out. Refused ({status}, some_code)"


def test_a_response_that_cannot_be_read_leaves_a_doubt() -> None:
    reads: dict[str, Callable[[Client], Any]] = {
        "read": CALLS["read"],
        "list": lambda client: client.list_signers().first(),
        "total": lambda client: client.list_signers().total(),
        "health": lambda client: client.readiness(),
    }
    fees = {"network": "evm", "transaction": b"\x02"}
    calls = CALLS | reads | {"fees": lambda client: client.relayer("r").fee_quote(**fees)}
    for body in (b"<html>", b"{}", b'{"data": {}}'):
        with calling(Answer(200, body, {"X-Request-ID": "5e0f"})) as (_server, client):
            for name, call in calls.items():
                with pytest.raises(errors.InvalidResponse) as raised:
                    call(client)
                assert raised.value.may_have_been_carried_out == (name not in reads)
                assert raised.value.request_id == "5e0f"


def test_an_error_that_a_gateway_returns_as_200_leaves_a_doubt() -> None:
    answer = Answer(200, {"error": {"code": 504, "message": "Gateway Timeout"}})
    with calling(answer) as (server, client), pytest.raises(errors.InvalidResponse) as raised:
        send(client)
    assert raised.value.may_have_been_carried_out
    assert keys(server.requests) == [raised.value.idempotency_key]


def test_a_refused_connection_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(transport, "sleep", pauses.append)
    with Client(f"http://127.0.0.1:{free_port()}", "t") as client:
        for call in CALLS.values():
            with pytest.raises(errors.ConnectionFailed):
                call(client)
    assert len(pauses) == 4 * len(CALLS)


def test_a_client_that_is_closed_during_a_pause_raises_with_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with calling(DROP) as (server, client):
        monkeypatch.setattr(transport, "sleep", lambda _: client.close())
        with pytest.raises(errors.ConnectionLost) as raised:
            send(client)
    assert keys(server.requests) == [raised.value.idempotency_key]
    assert raised.value.may_have_been_carried_out


def test_other_errors_are_raised_at_once() -> None:
    for status in (400, 401, 403, 404, 409, 500):
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


def test_a_slow_service_is_a_time_out_and_a_page_of_a_proxy_no_response() -> None:
    slow = Answer(200, b"", {"Content-Length": "10"})
    with calling(slow, timeout=0.05, retries=NO_RETRIES) as (_server, client), pytest.raises(errors.TimedOut):
        client.health()
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
