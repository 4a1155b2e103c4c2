"""A proxy that hands each request to the service, and drops the first response to each idempotency key."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.servers import serving

PASSED = ("Authorization", "Content-Type", "Idempotency-Key")


class DroppingProxy(ThreadingHTTPServer):
    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.service = url
        self.dropped: set[str] = set()
        self.http = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: DroppingProxy

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name: self.headers[name] for name in PASSED}
        request = urllib.request.Request(self.server.service + self.path, body, headers)
        with self.server.http.open(request) as response:
            answer = response.read()
        key = headers["Idempotency-Key"]
        if key not in self.server.dropped:
            self.server.dropped.add(key)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def dropping(url: str) -> Iterator[DroppingProxy]:
    server = DroppingProxy(url)
    server.daemon_threads = True
    with serving(server, threading.Event()):
        yield server
