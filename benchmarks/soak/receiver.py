"""A receiver of webhooks that takes its time, refuses some, and verifies what it takes."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

from tests.servers import serving

# Long enough that a worker which is killed has some in flight.
ANSWER_SECONDS = 0.1
# One in so many is answered 503, and so is sent again.
REFUSED_EVERY = 20


def signing_key(path: str) -> str:
    """Return the key that signs what is sent to a path: who changes the URL changes the key with it."""
    return f"the signing key of {path}"


class Receiver(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.requests = self.refused = 0
        # When each webhook was taken, by its id: more than once where it was sent again.
        self.taken: dict[str, list[float]] = {}
        self.forged: list[str] = []

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a sender that was killed before its answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        """Return the status to answer with."""
        identifier = headers.get("webhook-id", "")
        try:
            Webhook(signing_key(path).encode()).verify(body, headers)
        except WebhookVerificationError as error:
            self.forged.append(f"{identifier} at {path}: {error}")
            return 401
        time.sleep(ANSWER_SECONDS)
        with self.lock:
            self.requests += 1
            if self.requests % REFUSED_EVERY == 0:
                self.refused += 1
                return 503
            self.taken.setdefault(identifier, []).append(time.time())
        return 204


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.send_response(self.server.take(self.path, headers, body))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Print nothing."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    with serving(receiver, threading.Event()):
        yield receiver
