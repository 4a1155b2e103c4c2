"""The application as the web server calls it: RSGI around the WSGI application.

A body is read on the event loop, with a limit and a deadline, before a thread is taken for its request: a client that
sends slowly holds a connection and nothing else.
"""

import asyncio
import atexit
import gc
import io
import logging
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from django.conf import settings
from granian.rsgi import HTTPProtocol, Scope

from relayer_service import processes
from relayer_service.api import envelope
from relayer_service.background.pools import Pool
from relayer_service.net.headers import UNREADABLE_HEADER
from relayer_service.observability import metrics
from relayer_service.processes import signal_when_parent_dies, wait_for_banner
from relayer_service.request_bodies import read_body
from relayer_service.wsgi import application as wsgi_application

logger = logging.getLogger(__name__)

Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]
Headers = list[tuple[str, str]]

# At this signal granian's process closes idle connections, finishes the others and ends.
SERVER_STOP = signal.SIGINT
# How long a process may take to finish its requests after its parent was killed.
ORPHAN_SECONDS = 4

# Headers of a request that CGI names without the prefix.
UNPREFIXED = {"content-type": "CONTENT_TYPE", "content-length": "CONTENT_LENGTH"}

HEALTH_PATH = "/health"


class Application:
    """Has a pool of threads answer the requests of one process."""

    def __init__(self, wsgi: Wsgi) -> None:
        self.wsgi = wsgi
        self.stopping = False

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Prepare a process before its first request."""
        self.loop = loop
        self.answered: deque[asyncio.Future[None]] = deque()
        self._end_answered_forever()
        self.pool = Pool("web", settings.WEB_THREADS, in_callers_context=False)
        metrics.forget_ended_processes()
        self._handle_signals()
        # Objects loaded so far are excluded from garbage collection.
        gc.collect()
        gc.freeze()
        wait_for_banner()

    def __rsgi_del__(self, loop: asyncio.AbstractEventLoop) -> None:
        """End a process after its last request."""
        self.pool.shutdown()
        # Exit handlers: multiprocessing ends a process without running them.
        atexit._run_exitfuncs()

    def _handle_signals(self) -> None:
        """Stop in two steps: answer with `Connection: close` for a while, then have the server end."""
        # Ctrl-C reaches the parent alone, which ends its processes in order.
        os.setpgid(0, 0)
        self.loop.add_signal_handler(signal.SIGTERM, self._stop)
        self.loop.add_signal_handler(signal.SIGUSR1, self._stop_orphaned)
        signal_when_parent_dies(signal.SIGUSR1)

    def _stop(self) -> None:
        # Once: a second signal would hang the server.
        if not self.stopping:
            self.stopping = True
            self.loop.call_later(processes.DRAIN_SECONDS, os.kill, os.getpid(), SERVER_STOP)

    def _stop_orphaned(self) -> None:
        # The kernel ends the process then, whatever it does.
        signal.alarm(ORPHAN_SECONDS)
        self._stop()

    async def __rsgi__(self, scope: Scope, protocol: HTTPProtocol) -> None:
        self._end_answered()
        if is_health_probe(scope):
            # On the event loop: liveness must not depend on the threads.
            self._answer(scope, protocol, b"", 0)
            return
        body, length = await read_body(scope, protocol)
        answered = self.loop.create_future()
        self.pool.submit(self._answer_in_thread, scope, protocol, body, length, answered)
        await answered

    def _answer_in_thread(
        self, scope: Scope, protocol: HTTPProtocol, body: bytes, length: int, answered: asyncio.Future[None]
    ) -> None:
        try:
            self._answer(scope, protocol, body, length)
        finally:
            self.answered.append(answered)

    def _answer(self, scope: Scope, protocol: HTTPProtocol, body: bytes, length: int) -> None:
        """Run the WSGI application and send its response."""
        try:
            status, headers, content = run_wsgi(self.wsgi, environ(scope, body, length))
            if self.stopping:
                headers = [*headers, ("Connection", "close")]
            protocol.response_bytes(int(status[:3]), headers, content)
        except Exception:
            logger.exception("A request could not be handled")
            protocol.response_bytes(500, [("Content-Type", "application/json")], envelope.failure_bytes(500))

    def _end_answered(self) -> None:
        """End the coroutines of requests that were answered.

        At the next request or within a second: to wake the loop for it after each answer would cost more than some
        requests do.
        """
        while self.answered:
            answered = self.answered.popleft()
            if not answered.done():
                answered.set_result(None)

    def _end_answered_forever(self) -> None:
        self._end_answered()
        self.loop.call_later(1, self._end_answered_forever)


def is_health_probe(scope: Scope) -> bool:
    """Return whether a request is a health probe, for which neither the middleware nor the view waits."""
    headers = scope.headers
    has_body = "content-length" in headers or "transfer-encoding" in headers
    return scope.path == HEALTH_PATH and scope.method in {"GET", "HEAD"} and not has_body


def run_wsgi(wsgi: Wsgi, request: dict[str, Any]) -> tuple[str, Headers, bytes]:
    head: list[Any] = []
    response = wsgi(request, lambda status, headers: head.extend((status, headers)))
    try:
        content = b"".join(response)
    finally:
        if hasattr(response, "close"):
            response.close()
    status, headers = head
    return status, headers, content


def environ(scope: Scope, body: bytes, length: int) -> dict[str, Any]:
    """Return the WSGI environ of a request."""
    client, _, _ = scope.client.rpartition(":")
    name, _, port = scope.server.rpartition(":")
    found: dict[str, Any] = {
        "REQUEST_METHOD": scope.method,
        "SCRIPT_NAME": "",
        # The server has replaced what is not UTF-8: so that it names nothing, it is made that again.
        "PATH_INFO": scope.path.encode().replace(b"\xef\xbf\xbd", b"\xff").decode("latin-1"),
        "QUERY_STRING": scope.query_string.encode().decode("latin-1"),
        "REMOTE_ADDR": client.strip("[]"),
        "SERVER_NAME": name.strip("[]"),
        "SERVER_PORT": port,
        "SERVER_PROTOCOL": f"HTTP/{scope.http_version}",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.scheme,
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    found |= header_variables(scope)
    # Only HTTP/1.0 may do without; Django would guess one.
    if scope.http_version != "1":
        found.setdefault("HTTP_HOST", "")
    found["CONTENT_LENGTH"] = str(length) if length else ""
    return found


def header_variables(scope: Scope) -> dict[str, str]:
    """Return the headers of a request by their names in WSGI's environ."""
    found: dict[str, str] = {}
    for header, value in scope.headers.items():
        # In WSGI, `x_forwarded_for` would be the header that a proxy sets.
        if "_" in header:
            continue
        variable = variable_of(header)
        if variable in found:
            value = found[variable] + ("; " if header == "cookie" else ",") + value
        found[variable] = value
    for header in unreadable_headers(scope):
        # Other values are ignored.
        found[variable_of(header)] = ""
        # Django refuses an empty host.
        if header != "host":
            found[UNREADABLE_HEADER] = variable_of(header)
    return found


def unreadable_headers(scope: Scope) -> list[str]:
    """Return the names of headers whose first value the server could not read: it passes on the name alone.

    Later values of a header that is sent several times it drops without a trace.
    """
    headers = scope.headers
    return [name for name in headers.keys() if headers.get(name) is None]  # noqa: SIM118  # it is no dict


@lru_cache(1000)
def variable_of(header: str) -> str:
    """Return the name of a header in WSGI's environ."""
    return UNPREFIXED.get(header) or "HTTP_" + header.upper().replace("-", "_")


application = Application(wsgi_application)
