"""A webhook receiver on this machine: it answers as a test wants it to, and keeps what came."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

from tests.servers import serving

LOOPBACK = "127.0.0.1"


@dataclass
class Received:
    """One request, as it was read from the wire."""

    path: str
    headers: dict[str, str]
    body: bytes
    moment: float

    @property
    def webhook_id(self) -> str:
        return self.headers["webhook-id"]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        behave = self.server.note(Received(self.path, headers, body, time.time()))
        try:
            behave(self)
        finally:
            self.server.note_end()

    def log_message(self, *args: Any) -> None:
        """Say nothing: what came is kept."""


Behaviour = Callable[[Handler], None]


def answer(status: int = 200, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Behaviour:
    def behave(handler: Handler) -> None:
        handler.send_response(status)
        for name, value in (headers or {}).items():
            handler.send_header(name, value)
        if status >= 200 and status != 204:
            handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return behave


def raw(*parts: bytes, seconds: float = 0) -> Behaviour:
    """Send these bytes as they are, with a pause after each part, and close."""

    def behave(handler: Handler) -> None:
        handler.close_connection = True
        for part in parts:
            handler.connection.sendall(part)
            if handler.server.closing.wait(seconds):
                return

    return behave


def close(handler: Handler) -> None:
    """Hang up without a word."""
    handler.close_connection = True


def hang(handler: Handler) -> None:
    """Say nothing for as long as the receiver is there."""
    handler.close_connection = True
    handler.server.closing.wait()


def slow(seconds: float, then: Behaviour | None = None) -> Behaviour:
    def behave(handler: Handler) -> None:
        if handler.server.closing.wait(seconds):
            close(handler)
        else:
            (then or answer())(handler)

    return behave


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Behave otherwise at each request; the last one stays."""
    left = list(behaviours)
    lock = threading.Lock()

    def behave(handler: Handler) -> None:
        with lock:
            chosen = left.pop(0) if len(left) > 1 else left[0]
        chosen(handler)

    return behave


class Receiver(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def __init__(self, behaviour: Behaviour, key: str | None, host: str, tls: ssl.SSLContext | None) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.behaviour = behaviour
        self.key = key
        self.requests: list[Received] = []
        self.forged: list[str] = []
        self.connections = 0
        self.at_once = 0
        self.max_at_once = 0
        self.closing = threading.Event()
        self._lock = threading.Lock()
        super().__init__((host, 0), Handler)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{self.port}/hook"

    @property
    def port(self) -> int:
        return self.server_address[1]

    @property
    def webhook_ids(self) -> list[str]:
        return [request.webhook_id for request in self.requests]

    def note(self, request: Received) -> Behaviour:
        with self._lock:
            self.requests.append(request)
            self.at_once += 1
            self.max_at_once = max(self.max_at_once, self.at_once)
        try:
            self.verify(request)
        except WebhookVerificationError as error:
            self.forged.append(str(error))
            return answer(401)
        return self.behaviour

    def note_end(self) -> None:
        with self._lock:
            self.at_once -= 1

    def verify(self, request: Received) -> None:
        """Check the signature as a receiver would that has the key."""
        if self.key is not None:
            webhook = Webhook(self.key if self.key.startswith("whsec_") else self.key.encode())
            webhook.verify(request.body, request.headers)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that hangs up, or does not trust the certificate, is no error here."""

    def shutdown_request(self, request: Any) -> None:
        with suppress(OSError):
            super().shutdown_request(request)


@contextmanager
def receiver(
    behaviour: Behaviour | None = None,
    *,
    key: str | None = None,
    host: str = LOOPBACK,
    tls: ssl.SSLContext | None = None,
) -> Iterator[Receiver]:
    server = Receiver(behaviour or answer(), key, host, tls)
    with serving(server, server.closing):
        yield server
