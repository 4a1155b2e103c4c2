"""Mistakes of a first try: a wrong URL, token, port, certificate or service is named."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509

from relayer_client import NO_RETRIES, AsyncClient, Client, errors
from relayer_client.failures import request_failed
from tests.certificates import make_certificate
from tests.client.scripted_server import Answer, calling, scripted
from tests.servers import free_port, serving

SECRET = "a-secret-token"


def test_a_wrong_url_is_refused_at_once() -> None:
    host = "relayer.example.com"
    others = (f"{host}?a=b", f"{host}:port", f"{host}\n", f"user:{SECRET}@{host}", "")
    for url in (host, "127.0.0.1:8000", "localhost:8000", f"ftp://{host}", "", *(f"http://{each}" for each in others)):
        for kind in (Client, AsyncClient):
            with pytest.raises(ValueError, match=r"must begin with http:// or https://") as raised:
                kind(url, "t")
            assert SECRET not in str(raised.value)


@pytest.mark.parametrize("token", [f"{SECRET}\n", f"{SECRET} ", f"{SECRET}é", f"{SECRET}\r\nX-A: b", "", None])
def test_a_wrong_token_is_refused_and_not_shown(token: Any) -> None:
    with pytest.raises(ValueError, match="token must be visible ASCII") as raised:
        Client("http://127.0.0.1", token)
    assert SECRET not in str(raised.value)


@contextmanager
def tls_server(tmp_path: Path) -> Iterator[str]:
    """Yield the URL of a server whose certificate nobody trusts."""
    make_certificate(tmp_path / "pem", x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pem")
    server = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with serving(server, threading.Event()):
        yield f"https://127.0.0.1:{server.server_address[1]}"


@pytest.fixture(params=["blocking", "asyncio"])
def failure(request: pytest.FixtureRequest) -> Callable[[str], errors.RequestFailed]:
    """Return why a service cannot be called."""

    def call(url: str) -> None:
        with Client(url, "t", retries=NO_RETRIES) as client:
            client.health()

    async def call_async(url: str) -> None:
        async with AsyncClient(url, "t", retries=NO_RETRIES) as client:
            await client.health()

    def fail(url: str) -> errors.RequestFailed:
        with pytest.raises(errors.ConnectionFailed) as raised:
            call(url) if request.param == "blocking" else asyncio.run(call_async(url))
        assert isinstance(raised.value.__cause__, httpx.ConnectError)
        return raised.value

    return fail


def test_causes_of_a_failed_connection_are_told_apart(
    failure: Callable[[str], errors.RequestFailed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "refused" in str(failure(f"http://127.0.0.1:{free_port()}"))
    with scripted(Answer(200, {})) as server:
        assert "use http://" in str(failure(server.url.replace("http:", "https:")))
    with tls_server(tmp_path) as url:
        assert "certificate of the service is not trusted" in str(failure(url))

    def unresolved(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unresolved)
    assert "cannot be resolved" in str(failure("http://relayer.invalid"))


def test_an_exception_that_the_caller_handles_is_no_cause() -> None:
    def unreachable(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("unreachable")

    try:
        raise ConnectionRefusedError
    except ConnectionRefusedError:
        with httpx.Client(transport=httpx.MockTransport(unreachable)) as http:
            client = Client("http://127.0.0.1", "t", retries=NO_RETRIES, http=http)
            with pytest.raises(errors.ConnectionFailed, match=r"^The service cannot be reached\.$"):
                client.health()


def test_other_faults_of_tls_do_not_suggest_to_do_without() -> None:
    for reason, is_advised in {"WRONG_VERSION_NUMBER": True, "TLSV1_ALERT_PROTOCOL_VERSION": False}.items():
        error, cause = httpx.ConnectError("failed"), ssl.SSLError(1, "failed")
        cause.reason, error.__cause__ = reason, cause
        assert ("use http://" in str(request_failed(error, None))) == is_advised


def test_a_redirect_names_its_scheme() -> None:
    for status in (301, 302, 307, 308):
        answer = Answer(status, b"", {"Location": "https://relayer.example.com/api/v1/health"})
        with calling(answer) as (_server, client), pytest.raises(errors.ApiError, match="use https://"):
            client.health()


CALLS: list[Callable[[Client], Any]] = [
    lambda client: client.health(),
    lambda client: client.readiness(),
    lambda client: client.get_signer("s"),
    lambda client: client.delete_signer("s"),
    lambda client: client.list_signers().first(),
    lambda client: client.relayer("r").send(value=0),
    lambda client: client.relayer("r").fee_estimate(fee_token="ETH", network="hardhat", transaction="0x"),
]


def test_a_response_of_another_service_is_named_as_such() -> None:
    bodies: list[Any] = [{"hello": "world"}, [], None, "ok", {"result": {}}, {"data": {"id": 1}}]
    for body in bodies:
        with calling(Answer(200, body)) as (_server, client):
            for call in CALLS:
                with pytest.raises(errors.InvalidResponse, match="not one of the service"):
                    call(client)
    bodies = [{"detail": "Not Found"}, {"message": "no Route", "metadata": "a"}, [], b"<html>"]
    for body in bodies:
        with (
            calling(Answer(404, body)) as (_server, client),
            pytest.raises(errors.NotFound, match="of another server"),
        ):
            client.get_signer("s")
