"""The configuration of the web server, for `python -m relayer_service.run` and for deployments."""

import gc
import logging.config
import os
import select
import socket
import struct
from contextlib import suppress
from typing import Any

from django.conf import settings
from gunicorn import util
from gunicorn.glogging import Logger
from gunicorn.http import errors
from gunicorn.workers.gthread import ThreadWorker

from relayer_service.api import envelope

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "relayer_service.settings")


SILENCE_SECONDS = 20
# How long a thread waits for the next request of the client that it has just answered.
LINGER_MILLISECONDS = 10


class EnvelopeWorker(ThreadWorker):
    """Answers a request that cannot be parsed with the error envelope instead of an HTML page."""

    def handle(self, conn: Any) -> Any:
        # A client that falls silent in the middle of a request frees its thread after a while.
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", SILENCE_SECONDS, 0))
        keep = super().handle(conn)
        while keep is True and self._asks_again(conn):
            keep = super().handle(conn)
        # Otherwise the lingering close would run in the thread that accepts connections, and block them all.
        if keep is False:
            util.close_graceful(conn.sock, timeout=0.5)
            conn.close = lambda graceful=False: None
        return keep

    def _asks_again(self, conn: Any) -> bool:
        """Return whether the client's next request comes at once, while nobody waits for this thread.

        Many clients ask again as soon as they have an answer. To pass the connection to the thread that watches all of
        them and back would cost more than some requests do.
        """
        if not self.alive or not self.tpool._work_queue.empty():
            return False
        if conn.parser.unreader.buf.getvalue():
            return True
        poll = select.poll()
        poll.register(conn.sock, select.POLLIN)
        return bool(poll.poll(LINGER_MILLISECONDS))

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        malformed = isinstance(exc, errors.ParseException) and not isinstance(
            exc, (errors.ConfigurationProblem, errors.InvalidResponseHeader, errors.InvalidResponseHeaderName)
        )
        status, reason = (400, "Bad Request") if malformed else (500, "Internal Server Error")
        peer = (addr or ("-",))[0]
        if malformed:
            self.log.warning("Refused a request from %s that is not HTTP: %s", peer, type(exc).__name__)
        else:
            self.log.error("Could not answer a request from %s", peer, exc_info=exc)
        body = envelope.failure_bytes(status)
        head = (
            f"HTTP/1.1 {status} {reason}\r\nConnection: close\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        try:
            util.write_nonblock(client, head.encode() + body)
        except OSError:
            self.log.debug("The client left before its answer")


class DjangoLogger(Logger):
    """Logs the server's own lines like all others; Django's middleware logs requests."""

    def setup(self, cfg: Any) -> None:
        self.cfg = cfg
        self._access_log_enabled = False
        self.error_log.propagate = True
        logging.config.dictConfig(settings.LOGGING)


def post_worker_init(worker: Any) -> None:
    """Keep what is loaded by now out of all later garbage collections."""
    gc.collect()
    gc.freeze()
    wait_for_banner()


def wait_for_banner() -> None:
    """Let `make run` print its banner before the first answer; later processes find the gate open."""
    if "START_GATE" in os.environ:
        with suppress(OSError), socket.socket(fileno=int(os.environ["START_GATE"])) as gate:
            gate.sendall(b".")
            gate.recv(1)


def child_exit(server: Any, worker: Any) -> None:
    """Remove the metrics of a web process that has ended."""
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        from prometheus_client import multiprocess

        multiprocess.mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]  # no types there


wsgi_app = "relayer_service.wsgi:application"
bind = f"{settings.HOST}:{settings.PORT}"
worker_class = EnvelopeWorker
workers = settings.WEB_PROCESSES
threads = settings.WEB_THREADS
# The parser whose answers to malformed requests are tested.
http_parser = "python"
control_socket_disable = True
keepalive = 75
graceful_timeout = 25
timeout = 60
limit_request_line = 8190
# TRUSTED_PROXIES decides whom to believe, so the server itself believes nobody: not the scheme, not SCRIPT_NAME.
forwarded_allow_ips = ""
logger_class = DjangoLogger
proc_name = "relayer-service-web"
