"""The RSGI application that the web server calls, around the WSGI application.

A body is read on the event loop before its request takes a thread: a slow client holds a connection and nothing else.
"""

import asyncio
import gc
import io
import logging
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from django.conf import settings
from granian.rsgi import HTTPProtocol, Scope

from relayer_service import processes
from relayer_service.api import envelope
from relayer_service.background.pools import Pool, at_exit
from relayer_service.background.shares import SIGNING_IN
from relayer_service.net.incoming import UNREADABLE_HEADER
from relayer_service.observability import metrics
from relayer_service.server.request_bodies import read_body
from relayer_service.wsgi import FAILURE_HEADERS
from relayer_service.wsgi import application as wsgi_application

logger = logging.getLogger(__name__)

Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]

# On this signal granian closes idle connections, finishes the others and exits.
SERVER_STOP = signal.SIGINT
# How long a process may take to finish its requests after its parent was killed.
ORPHAN_SECONDS = 4
LOGIN_PATH = "/admin/login/"
# Request headers that CGI names without the prefix HTTP_.
UNPREFIXED = {"content-type": "CONTENT_TYPE", "content-length": "CONTENT_LENGTH"}


class Application:
    """Answers the requests of one process in a pool of threads."""

    def __init__(self, wsgi: Wsgi) -> None:
        self.wsgi = wsgi
        self.stopping = False

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        from relayer_service.health.worker_watch import watch_forever  # needs the apps

        self.loop = loop
        self.answered: deque[asyncio.Future[None]] = deque()
        self._end_answered_forever()
        self.pool = Pool("web", settings.WEB_THREADS, in_callers_context=False)
        # Half of these threads can check a password, the others refuse; the rest of many attempts waits.
        self.sign_in_pool = Pool("sign-in", 2 * SIGNING_IN.size, in_callers_context=False)
        metrics.forget_ended_processes()
        # Ctrl-C reaches only the parent, which stops its processes in order.
        os.setpgid(0, 0)
        loop.add_signal_handler(signal.SIGTERM, self._stop)
        loop.add_signal_handler(signal.SIGUSR1, self._stop_orphaned)
        # A signal that arrives before the loop runs would be lost.
        loop.call_soon(processes.unblock_stop)
        loop.call_soon(processes.signal_when_parent_dies, signal.SIGUSR1)
        # Objects loaded so far are excluded from garbage collection.
        gc.collect()
        gc.freeze()
        threading.Thread(target=watch_forever, name="worker-watch", daemon=True).start()
        processes.wait_for_banner()

    def __rsgi_del__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.pool.shutdown()
        self.sign_in_pool.shutdown()
        # multiprocessing exits without calling `atexit`.
        at_exit.close()

    def _stop(self) -> None:
        """Answer with `Connection: close` for the drain, then stop the server; once, as a second signal hangs it."""
        if not self.stopping:
            self.stopping = True
            self.loop.call_later(processes.DRAIN_SECONDS, os.kill, os.getpid(), SERVER_STOP)

    def _stop_orphaned(self) -> None:
        # After this time the kernel kills the process.
        signal.alarm(ORPHAN_SECONDS)
        self._stop()

    async def __rsgi__(self, scope: Scope, protocol: HTTPProtocol) -> None:
        self._end_answered()
        if is_health_probe(scope):
            # On the event loop, as nothing in it waits: liveness must not depend on the threads.
            self._answer(scope, protocol, b"", 0)
            return
        body, length = await read_body(scope, protocol)
        answered = self.loop.create_future()
        is_sign_in = scope.path == LOGIN_PATH and scope.method == "POST"
        pool = self.sign_in_pool if is_sign_in else self.pool
        pool.submit(self._answer_in_thread, scope, protocol, body, length, answered)
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
            protocol.response_bytes(500, FAILURE_HEADERS, envelope.failure_bytes(500))

    def _end_answered(self) -> None:
        """Finish the coroutines of answered requests.

        At the next request or within a second: waking the loop after each answer costs more than some requests.
        """
        while self.answered:
            answered = self.answered.popleft()
            if not answered.done():
                answered.set_result(None)

    def _end_answered_forever(self) -> None:
        self._end_answered()
        self.loop.call_later(1, self._end_answered_forever)


def is_health_probe(scope: Scope) -> bool:
    if scope.path != "/health" or scope.method not in {"GET", "HEAD"}:
        return False
    return "content-length" not in scope.headers and "transfer-encoding" not in scope.headers


def run_wsgi(wsgi: Wsgi, request: dict[str, Any]) -> tuple[str, list[tuple[str, str]], bytes]:
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
    client, _, _ = scope.client.rpartition(":")
    name, _, port = scope.server.rpartition(":")
    variables: dict[str, Any] = {
        "REQUEST_METHOD": scope.method,
        "SCRIPT_NAME": "",
        # The server replaces bytes that are not UTF-8; they become invalid again, so that they match no path.
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
    variables |= header_variables(scope)
    # Required since HTTP/1.1; without one Django would use the server's name.
    if scope.http_version != "1":
        variables.setdefault("HTTP_HOST", "")
    variables["CONTENT_LENGTH"] = str(length) if length else ""
    return variables


def header_variables(scope: Scope) -> dict[str, str]:
    """Return the headers of a request by environ key."""
    variables: dict[str, str] = {}
    for header, value in scope.headers.items():
        # In WSGI, `x_forwarded_for` would pass for the header of a proxy.
        if "_" in header:
            continue
        variable = variable_of(header)
        if variable in variables:
            value = variables[variable] + ("; " if header == "cookie" else ",") + value
        variables[variable] = value
    # Of a header whose first value is not ASCII the server passes on the name alone. It drops later such values.
    for header in scope.headers.keys():  # noqa: SIM118  # it is no dict
        if scope.headers.get(header) is None:
            variables[variable_of(header)] = ""
            # Django rejects an empty host itself; an invalid traceparent is ignored.
            if header not in {"host", "traceparent"}:
                variables[UNREADABLE_HEADER] = variable_of(header)
    return variables


@lru_cache(1000)
def variable_of(header: str) -> str:
    return UNPREFIXED.get(header) or "HTTP_" + header.upper().replace("-", "_")


application = Application(wsgi_application)
