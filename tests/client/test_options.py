"""Options of a client: its token, headers, TLS, proxy and timeouts, and copies with others."""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.propagate import inject
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from relayer_client import NO_RETRIES, AsyncClient, Client, __version__, errors
from tests.client.examples import TRANSACTION
from tests.client.scripted_server import AT_ONCE, DROP, Answer, ScriptedServer, calling, ok, refused, scripted
from tests.client.test_setup import SECRET, tls_server

SIGNER = {"id": "s", "type": "plain", "config": {}}
ROTATED: dict[str, Any] = {
    "token": "rms_new",
    "name": "checkout",
    "scopes": [],
    "allowed_relayers": [],
    "expires_at": None,
    "replaces": {"token": "rms_old", "expires_at": "2026-11-16T12:00:00.000000Z"},
}


def sent(server: ScriptedServer, name: str) -> list[str | None]:
    """Return a header of the requests."""
    return [request.headers.get(name) for request in server.requests]


def test_a_function_returns_the_token_of_each_call() -> None:
    tokens = iter(["one", "two", "", None])
    with scripted(DROP, ok(SIGNER)) as server:
        with Client(server.url, lambda: next(tokens), retries=AT_ONCE) as client:  # type: ignore[arg-type,return-value]
            client.get_signer("s")
            client.get_signer("s")
            # Two that are no tokens, then a function that fails: nothing is sent, and a payment keeps its key.
            for cause in (ValueError, ValueError, StopIteration):
                with pytest.raises(errors.ConnectionFailed) as raised:
                    client.relayer("r").send(idempotency_key="payout-1")
                assert isinstance(raised.value.__cause__, cause)
                assert (raised.value.idempotency_key, raised.value.may_have_been_carried_out) == ("payout-1", False)
        assert sent(server, "authorization") == ["Bearer one", "Bearer one", "Bearer two"]


def test_an_asynchronous_function_returns_the_token() -> None:
    async def read() -> str:
        return "one"

    async def call(url: str) -> None:
        for token in (read, lambda: "two"):
            async with AsyncClient(url, token) as client:
                await client.get_signer("s")

    with scripted(ok(SIGNER)) as server:
        asyncio.run(call(server.url))
        assert sent(server, "authorization") == ["Bearer one", "Bearer two"]


def test_a_rotated_token_is_used_by_copies_and_does_not_replace_a_function() -> None:
    with scripted(ok(ROTATED)) as server, Client(server.url, "old") as client:
        others = [client.with_options(token=token) for token in (lambda: "own", "other")]
        for each in (client, client.with_options(timeout=5), *others):
            each.rotate_token()
            each.rotate_token()
        new = ["old", "rms_new", "rms_new", "rms_new", "own", "own", "other", "rms_new"]
        assert sent(server, "authorization") == [f"Bearer {each}" for each in new]


def test_the_environment_has_url_and_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RELAYER_URL", raising=False)
    monkeypatch.setenv("RELAYER_TOKEN", "")
    with pytest.raises(ValueError, match="environment variable RELAYER_URL and RELAYER_TOKEN"):
        Client.from_env()
    with scripted(refused(503, "busy", Retry_After="0"), ok(SIGNER)) as server:
        monkeypatch.setenv("RELAYER_URL", server.url)
        monkeypatch.setenv("RELAYER_TOKEN", "t")
        with Client.from_env(retries=NO_RETRIES) as client, pytest.raises(errors.Unavailable):
            client.get_signer("s")
        assert sent(server, "authorization") == ["Bearer t"]


def test_a_copy_has_other_options_and_leaves_the_connections_open() -> None:
    slow = Answer(200, b"", {"Content-Length": "10"})
    busy = refused(503, "busy", Retry_After="0")
    with scripted(slow, busy, ok(SIGNER)) as server, Client(server.url, "t", headers={"X-Team": "a"}) as client:
        hasty = client.with_options(timeout=0.05, retries=NO_RETRIES, headers={"traceparent": "00-1", "x-team": "b"})
        with pytest.raises(errors.TimedOut):
            hasty.get_signer("s")
        with hasty, pytest.raises(errors.Unavailable):
            hasty.get_signer("s")
        assert hasty.get_signer("s").id == client.get_signer("s").id == "s"
        assert hasty._transport._pools is client._transport._pools
        assert sent(server, "traceparent") == ["00-1"] * 3 + [None]
        assert sent(server, "x-team") == ["b"] * 3 + ["a"]
    with pytest.raises(RuntimeError, match="closed"):
        hasty.get_signer("s")


def test_errors_and_log_lines_have_the_id_of_the_request(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "relayer_client")
    # The service replaces some.
    others = [replace(each, headers={"X-Request-ID": "other"}) for each in (ok(SIGNER), Answer(502, b""))]
    with calling(DROP, *others, DROP) as (server, client):
        client.get_signer("s")
        hasty = client.with_options(retries=replace(AT_ONCE, attempts=2), headers={"X-Request-ID": "mine"})
        with pytest.raises(errors.ConnectionLost, match=r"^Request mine: The connection was closed") as raised:
            hasty.get_signer("s")
        first, again, _, last = sent(server, "x-request-id")
    lines = [record.getMessage() for record in caplog.records if record.name == "relayer_client"]
    assert (first, last, raised.value.request_id) == (again, "mine", "mine")
    assert lines[0].startswith(f"GET /signers/s is sent again in 0.0 s (attempt 1 failed): Request {first}: The conn")
    assert re.fullmatch(r"Request other: GET /signers/s: 200 in \d+\.\d{3} s", lines[1])
    assert lines[2].startswith("Request other: GET /signers/s: 502")
    assert lines[3].startswith("GET /signers/s is sent again in 0.0 s (attempt 1 failed): Request other: ")
    assert lines[4:] == []


def test_requests_name_the_client_or_what_the_caller_says() -> None:
    with calling(ok(SIGNER)) as (server, client):
        client.get_signer("s")
        client.with_options(headers={"User-Agent": "shop/1"}).get_signer("s")
        assert sent(server, "user-agent") == [f"relayer-client-python/{__version__}", "shop/1"]


@pytest.mark.parametrize("name", ["authorization", "Idempotency-Key", "a b", "X-A"])
def test_a_header_that_cannot_be_sent_is_refused_and_not_shown(name: str) -> None:
    with pytest.raises(ValueError, match="visible ASCII") as raised:
        Client("http://127.0.0.1", "t", headers={name: f"{SECRET}\n"})
    assert SECRET not in str(raised.value)


def test_a_proxy_receives_the_requests() -> None:
    with scripted(ok(SIGNER)) as proxy:
        with Client("http://relayer.invalid", "t", proxy=proxy.url) as client:
            assert client.get_signer("s").id == "s"
        assert [request.path for request in proxy.requests] == ["http://relayer.invalid/api/v1/signers/s"]
    with pytest.raises(ValueError, match="proxy"):
        Client("http://127.0.0.1", "t", proxy="relayer:1")


def test_a_proxy_that_does_not_connect_leaves_no_doubt() -> None:
    # It answers CONNECT with 501.
    with scripted(ok(TRANSACTION)) as proxy, Client("https://relayer.invalid", "t", proxy=proxy.url) as client:
        with pytest.raises(errors.ConnectionFailed, match="proxy did not connect") as raised:
            client.with_options(retries=NO_RETRIES).relayer("r").send(value=0)
        assert not raised.value.may_have_been_carried_out


def test_a_ca_of_the_caller_is_trusted(tmp_path: Path) -> None:
    with tls_server(tmp_path) as url:
        for verify in (str(tmp_path / "pem"), False):
            # The server answers nothing but pages that it does not have.
            with Client(url, "t", verify=verify) as client, pytest.raises(errors.ApiError, match="501"):
                client.health()


@pytest.mark.parametrize("options", [{"verify": False}, {"proxy": "http://proxy"}, {"timeout": 1.0}])
def test_options_of_a_pool_are_refused_with_an_httpx_client_of_the_caller(options: dict[str, Any]) -> None:
    with httpx.Client() as shared, pytest.raises(ValueError, match=f"{next(iter(options))} cannot be set together"):
        Client("http://127.0.0.1", "t", http=shared, **options)


def test_hooks_of_an_httpx_client_see_each_attempt() -> None:
    def trace(request: httpx.Request) -> None:
        request.headers["traceparent"] = f"00-{len(traced)}"
        traced.append(request.url.path)

    traced: list[str] = []
    with (
        scripted(DROP, ok(TRANSACTION)) as server,
        httpx.Client(event_hooks={"request": [trace]}) as shared,
        Client(server.url, "t", retries=AT_ONCE, http=shared) as client,
    ):
        client.relayer("sender").send(value=0)
        assert sent(server, "traceparent") == ["00-0", "00-1"]


def test_instrumentation_of_httpx_sees_each_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    handle, spans = httpx.HTTPTransport.handle_request, iter((0xA, 0xB))

    def trace_request(transport: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        """Do what `opentelemetry-instrumentation-httpx` does in place of the same method."""
        context = SpanContext(0xC, next(spans), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
        inject(request.headers, set_span_in_context(NonRecordingSpan(context)))
        return handle(transport, request)

    with calling(ok(SIGNER), refused(429, "throttled"), ok(SIGNER)) as (server, client):
        # Its connections are open when the instrumentation begins.
        client.get_signer("s")
        monkeypatch.setattr(httpx.HTTPTransport, "handle_request", trace_request)
        client.get_signer("s")
        assert sent(server, "traceparent") == [None, f"00-{0xC:032x}-{0xA:016x}-01", f"00-{0xC:032x}-{0xB:016x}-01"]


def test_clients_and_relayers_name_the_service_and_not_the_token() -> None:
    client = Client("http://127.0.0.1:8000/", SECRET)
    relayer = AsyncClient("https://relayer.example.com", SECRET).relayer("sender")
    assert repr(client) == "Client('http://127.0.0.1:8000')"
    assert repr(relayer) == "AsyncRelayer('sender', 'https://relayer.example.com')"
