"""The fake node of all tests: a real socket with any behaviour, and all ways in which a node can fail."""

from __future__ import annotations

import functools
import gzip
import json
import os
import socket
import struct
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.servers import serving

# In the user info, the path and the query of every URL here, where providers put their keys.
SECRET = "SECRET-0123456789"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: NodeServer

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(asked)
        self.server.traceparents.append(self.headers["traceparent"])
        with suppress(OSError):
            self.server.behaviour(self, asked)

    def log_message(self, *args: Any) -> None:
        """Say nothing: what came is kept."""


Behaviour = Callable[[Handler, Any], None]


class NodeServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def __init__(self, behaviour: Behaviour, upstream: str) -> None:
        self.behaviour = behaviour
        self.upstream = upstream
        self.requests: list[Any] = []
        # Of each request, in the same order.
        self.traceparents: list[str | None] = []
        self.connections = 0
        self.closing = threading.Event()
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = secret_url(self.server_address[1])

    @property
    def methods(self) -> list[list[str]]:
        """The methods of each request."""
        return [[call["method"] for call in _calls(asked)] for asked in self.requests]

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that hangs up is no error here."""


@contextmanager
def node(behaviour: Behaviour, upstream: str = "") -> Iterator[NodeServer]:
    server = NodeServer(behaviour, upstream)
    with serving(server, server.closing):
        yield server


@contextmanager
def refusing() -> Iterator[str]:
    """Yield the URL of a port that nobody listens at, and that nobody else gets."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield secret_url(held.getsockname()[1])


def secret_url(port: int) -> str:
    return f"http://user:{SECRET}@127.0.0.1:{port}/{SECRET}?key={SECRET}"


def _calls(asked: Any) -> list[Any]:
    return asked if isinstance(asked, list) else [asked]


def send(handler: Handler, body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
    handler.send_response(status)
    for name, value in (headers or {}).items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def ask_upstream(handler: Handler, asked: Any) -> Any:
    request = urllib.request.Request(
        handler.server.upstream, json.dumps(asked).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def good(handler: Handler, asked: Any) -> None:
    send(handler, json.dumps(ask_upstream(handler, asked)).encode())


def each(answer: Callable[[dict[str, Any]], dict[str, Any]], status: int = 200) -> Behaviour:
    """Answer each call on its own, single or in a batch; the id is added."""

    def behave(handler: Handler, asked: Any) -> None:
        found = [{"jsonrpc": "2.0", "id": call["id"], **answer(call)} for call in _calls(asked)]
        send(handler, json.dumps(found if isinstance(asked, list) else found[0]).encode(), status)

    return behave


def changed(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Behaviour:
    """Answer as the node does, but for a change of each answer."""

    def behave(handler: Handler, asked: Any) -> None:
        answers = ask_upstream(handler, _calls(asked))
        found = [change(answer) for answer in answers]
        send(handler, json.dumps(found if isinstance(asked, list) else found[0]).encode())

    return behave


def answering(answer: dict[str, Any], status: int = 200) -> Behaviour:
    """Answer every call the same."""
    return each(lambda call: answer, status)


def by_method(**answers: dict[str, Any]) -> Behaviour:
    """Answer every call of a method the same."""
    return each(lambda call: answers[call["method"]])


def error(code: int, message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, **more}}


def status(code: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Behaviour:
    return lambda handler, asked: send(handler, body, code, headers)


def reset(handler: Handler, asked: Any) -> None:
    """Break the connection off, without an end."""
    handler.close_connection = True
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    os.close(handler.connection.detach())


def hang_up(handler: Handler, asked: Any) -> None:
    handler.close_connection = True


def hang(handler: Handler, asked: Any) -> None:
    """Say nothing for as long as the node is there."""
    handler.close_connection = True
    handler.server.closing.wait()


def drip(text: bytes, at_once: bytes = b"") -> Behaviour:
    """Send a byte now and then, and never come to an end."""

    def behave(handler: Handler, asked: Any) -> None:
        handler.close_connection = True
        handler.connection.sendall(at_once)
        while not handler.server.closing.wait(0.02):
            handler.connection.sendall(text)

    return behave


def huge(handler: Handler, asked: Any) -> None:
    """Send more and more."""
    handler.close_connection = True
    handler.connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n[")
    while not handler.server.closing.is_set():
        handler.connection.sendall(b"0," * 32_768)


@functools.cache
def packed_zeros() -> bytes:
    return gzip.compress(bytes(64 * 1024 * 1024))


def bomb(handler: Handler, asked: Any) -> None:
    """Send little that becomes much when it is unpacked."""
    send(handler, packed_zeros(), headers={"Content-Encoding": "gzip"})


def no_batches(handler: Handler, asked: Any) -> None:
    if isinstance(asked, list):
        refusal = {"jsonrpc": "2.0", "id": None, **error(-32600, "batches are not supported")}
        send(handler, json.dumps(refusal).encode())
    else:
        good(handler, asked)


def wrong_id(answer: dict[str, Any]) -> dict[str, Any]:
    return answer | {"id": answer["id"] + 1}


def on_chain(number: int) -> Behaviour:
    """Tell another chain id, and be right in all else."""
    return changed(lambda answer: answer | {"result": hex(number)} if answer["result"] == hex(31337) else answer)


FAULTS: dict[str, Behaviour] = {
    "reset": reset,
    "hang up": hang_up,
    "hang": hang,
    "500": status(500, b"Internal Server Error"),
    "429": status(429, headers={"Retry-After": "7"}),
    "429 in a 200": answering(error(429, "compute units exceeded")),
    "401": answering(error(-32600, "Must be authenticated!"), status=401),
    "wrong chain": on_chain(5),
    "garbage": status(200, b"<html>"),
    "not HTTP": drip(b"x", at_once=b"\x00\x01\x02\r\n\r\n"),
    "wrong id": changed(wrong_id),
    "huge": huge,
    "bomb": bomb,
    "slow headers": drip(b"x", at_once=b"HTTP/1.1 200 OK\r\nX-Drip: "),
    "slow body": drip(b" ", at_once=b"HTTP/1.1 200 OK\r\n\r\n["),
    "behind": answering(error(-32000, "header not found")),
    "redirect": status(307, headers={"Location": "http://127.0.0.1:9/"}),
}
