"""The web server: granian, configured by the settings. Run it with `python -m relayer_service.server`.

One method of granian's that is overridden is private, `_init_shared_socket`: granian has no option for a listening
socket, and its own has no limit for unread responses and loses connections when a process ends (see `WebServer`).
"""

import gc
import os
import pkgutil
import resource
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import BaseCommand
from granian.constants import HTTPModes, Interfaces, RuntimeModes
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.net import SocketHolder
from granian.server import Server

from relayer_service import processes

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "relayer_service.settings")

# The request line and headers; the server reads up to twice as much before it rejects them.
MAX_HEAD_BYTES = 32_768
# Connections that wait to be accepted: enough for a burst, and within the limit of Linux (net.core.somaxconn).
BACKLOG = 1024
# Connections of a process: far more than proxies keep open, and within common limits of open files.
MAX_CONNECTIONS = 4096
# How long a process may take to finish its requests after the drain: longer than CLIENT_TIMEOUT_SECONDS, and with
# the drain shorter than the stop timeouts in `deploy`.
STOP_SECONDS = 25
# A process is replaced after a day, in case of a memory leak.
PROCESS_LIFETIME_SECONDS = 24 * 60 * 60
# Open files of a process that are not client connections.
OTHER_FILES = 1024
# From Linux's socket.h: the network interface that a socket listens on, here one that does not exist.
SO_BINDTOIFINDEX = 62
NO_INTERFACE = 2**31 - 1


class CannotStart(Exception):
    """The service cannot start; the message says what to do."""


class WebServer(Server):
    """granian with one listening socket for all its processes.

    By default each process opens its own: connections that wait to be accepted are then lost with a process that
    crashes or is replaced, and a port that another server uses is shared with it instead of rejected.
    """

    def __init__(self, application: str, listener: socket.socket) -> None:
        self.listener = listener
        super().__init__(
            application,
            address=settings.HOST.strip("[]"),
            port=settings.PORT,
            interface=Interfaces.RSGI,
            workers=settings.WEB_PROCESSES,
            runtime_mode=RuntimeModes.st,
            http=HTTPModes.http1,
            websockets=False,
            backlog=BACKLOG,
            backpressure=MAX_CONNECTIONS,
            http1_settings=HTTP1Settings(
                header_read_timeout=processes.CLIENT_TIMEOUT_SECONDS * 1000, max_buffer_size=MAX_HEAD_BYTES
            ),
            respawn_failed_workers=True,
            workers_kill_timeout=STOP_SECONDS,
            log_level=LogLevels(settings.LOGGING["root"]["level"].lower()),
            log_dictconfig=settings.LOGGING,
        )

    def startup(self, *args: Any) -> None:
        # Not in the constructor: granian warns of lost connections there, as it opens a socket per process.
        self.workers_lifetime = PROCESS_LIFETIME_SECONDS
        super().startup(*args)

    def shutdown(self, exit_code: int = 0) -> None:
        threading.Timer(processes.DRAIN_SECONDS / 2, stop_listening, [self.listener]).start()
        super().shutdown(exit_code)

    def _init_shared_socket(self) -> None:
        self._shd = SocketHolder(self.listener.fileno(), False, BACKLOG)
        self._sso = None


def listen(host: str, port: int) -> socket.socket:
    """Open the socket that all processes share."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        raise CannotStart(f"port {port} on {host} cannot be used ({error.strerror}); set PORT or HOST.") from None
    if sys.platform == "linux":
        # Connections inherit it: the kernel closes one whose client leaves its response unread for this long.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, processes.CLIENT_TIMEOUT_SECONDS * 1000)
    listener.set_inheritable(True)
    return listener


def stop_listening(listener: socket.socket) -> None:
    """Refuse new connections. The processes still accept those that are queued, so that none is lost."""
    with listener, suppress(OSError):  # Linux before 5.7
        if sys.platform == "linux":
            listener.setsockopt(socket.SOL_SOCKET, SO_BINDTOIFINDEX, NO_INTERFACE)


def allow_connections(count: int) -> None:
    """Raise the limit of open files for this many connections, as far as the hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def delete_metrics() -> None:
    """Delete the shared metrics of ended processes, and those of this one, which answers no requests."""
    if folder := os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        for file in Path(folder).glob("*_*.db"):
            pid = int(file.stem.rpartition("_")[2])
            if pid == os.getpid() or not processes.is_running(pid):
                file.unlink(missing_ok=True)


def main(arguments: list[str]) -> int:
    """Serve until a signal: the service, or the application that an argument names."""
    application = arguments[0] if arguments else "relayer_service.server.rsgi:application"
    try:
        listener = listen(settings.HOST, settings.PORT)
        if settings.WEB_PROCESSES > 1:
            # They share their metrics through files.
            os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", str(settings.DATA_DIR / f"metrics/web-{settings.PORT}"))
        pkgutil.resolve_name(application)
        if apps.ready:  # not for an application without Django
            # Run the system checks, as management commands do: they validate NETWORKS_FILE.
            BaseCommand().check()
    except (CannotStart, ImproperlyConfigured) as problem:
        print(f"Cannot start: {problem}", file=sys.stderr)
        return 1
    delete_metrics()
    allow_connections(MAX_CONNECTIONS)
    # A collection in a process would touch, and so copy, the memory that it shares with its parent.
    gc.collect()
    gc.freeze()
    processes.block_stop_while_forking()
    WebServer(application, listener).serve()
    return 0
