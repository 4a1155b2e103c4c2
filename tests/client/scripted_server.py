"""An HTTP server that answers each request as the next entry of a script says, and records it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from relayer_client import Client, Retries
from tests.servers import serving

ENVELOPE = {"error": "", "metadata": {"logs": [], "traces": []}, "success": True}


@dataclass(frozen=True)
class Answer:
    """A response; None as status closes the connection after the whole request was read."""

    status: int | None
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


DROP = Answer(None)


def ok(data: Any, **rest: Any) -> Answer:
    return Answer(200, {"data": data, **ENVELOPE, **rest})


def refused(status: int, code: str, message: str = "Refused", **headers: str) -> Answer:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, {"data": None, "message": message, "success": False}, {"Error-Code": code, **names})


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class ScriptedServer(ThreadingHTTPServer):
    # Answers the last entry again and again.
    def __init__(self, script: Sequence[Answer]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = list(script)
        self.requests: list[Request] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def next(self, request: Request) -> Answer:
        with self.lock:
            self.requests.append(request)
            return self.script.pop(0) if len(self.script) > 1 else self.script[0]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ScriptedServer

    def handle_one(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.next(Request(self.command, self.path, headers, body))
        if answer.status is None:
            self.close_connection = True
            return
        content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        for name, value in {"Content-Length": str(len(content)), **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one  # noqa: N815  # the names of the base class

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def scripted(*script: Answer) -> Iterator[ScriptedServer]:
    server = ScriptedServer(script)
    server.daemon_threads = True
    with serving(server, threading.Event()):
        yield server


AT_ONCE = Retries(first_pause=0)


@contextmanager
def calling(
    *script: Answer, retries: Retries = AT_ONCE, timeout: float = 60.0
) -> Iterator[tuple[ScriptedServer, Client]]:
    """Yield a scripted server and a client of it, which repeats requests without a pause."""
    with scripted(*script) as server, Client(server.url, "a-token", retries=retries, timeout=timeout) as client:
        yield server, client
