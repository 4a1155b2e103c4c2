"""The web server: granian, configured by the settings. Run it with `python -m relayer_service.server`."""

import ctypes
import os
import resource
import signal
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from granian._internal import load_target
from granian.constants import HTTPModes, Interfaces, RuntimeModes
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.net import SocketHolder
from granian.server import Server

from relayer_service import processes
from relayer_service.processes import is_running, signal_when_parent_dies

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "relayer_service.settings")

APPLICATION = "relayer_service.rsgi:application"
# Per connection, for the request line and headers; the server reads up to twice as much before it rejects them.
MAX_HEAD_BYTES = 32_768
# Connections that wait to be accepted: enough for a burst, and within the limit of Linux (net.core.somaxconn).
BACKLOG = 1024
# Connections of a process: far more than proxies keep open, and few enough for the files of one process.
MAX_CONNECTIONS = 4096
# How long a process may take to finish its requests after the drain: longer than CLIENT_TIMEOUT_SECONDS. The stop
# timeouts in `deploy` are longer than both together.
STOP_SECONDS = 25
# After a day a process is replaced, in case something in it leaks.
PROCESS_LIFETIME_SECONDS = 24 * 60 * 60
# Files and sockets of a process in addition to those of its clients.
OTHER_FILES = 1024
# Linux' socket filters, and one that drops the first packet of each new connection.
SO_ATTACH_FILTER = 26
DROP_NEW_CONNECTIONS = (
    (0x30, 0, 0, 13),  # load the TCP header's flags
    (0x54, 0, 0, 0x12),  # of these SYN and ACK
    (0x15, 0, 1, 0x02),  # if it is SYN alone,
    (0x06, 0, 0, 0),  # drop the packet,
    (0x06, 0, 0, 0xFFFFFFFF),  # else keep it
)


class CannotStart(Exception):
    """The service cannot start; the message says what to do."""


class WebServer(Server):
    """granian with one listening socket for all its processes.

    By itself each process would open its own, and connections that wait in it to be accepted would be lost with a
    process that crashes or is replaced. It would also share a busy port with another server instead of refusing it.
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
                header_read_timeout=settings.CLIENT_TIMEOUT_SECONDS * 1000, max_buffer_size=MAX_HEAD_BYTES
            ),
            respawn_failed_workers=True,
            workers_kill_timeout=STOP_SECONDS,
            log_level=LogLevels(settings.LOGGING["root"]["level"].lower()),
            log_dictconfig=settings.LOGGING,
        )

    def startup(self, *args: Any) -> None:
        # Only now, as granian would warn of connections that are lost where sockets are not shared.
        self.workers_lifetime = PROCESS_LIFETIME_SECONDS
        super().startup(*args)

    def shutdown(self, exit_code: int = 0) -> None:
        threading.Thread(target=stop_listening, args=[self.listener]).start()
        super().shutdown(exit_code)

    def _init_shared_socket(self) -> None:
        self._ssp = None
        self._sso = self.listener
        self._shd = SocketHolder(self.listener.fileno(), False, BACKLOG)

    def _drop_shared_socket(self) -> None:
        """Leave the socket to `stop_listening`."""


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
        # Connections inherit it: the kernel closes one whose client leaves its answer unread for so long.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, settings.CLIENT_TIMEOUT_SECONDS * 1000)
    listener.set_inheritable(True)
    return listener


def stop_listening(listener: socket.socket) -> None:
    """Accept new connections for half of the drain, then only those already in the queue.

    So a proxy without another web process still gets answers, and no connection is lost with its first request.
    """
    with listener:
        time.sleep(processes.DRAIN_SECONDS / 2)
        ignore_new_connections(listener)


def ignore_new_connections(listener: socket.socket) -> None:
    """Drop new connections in the kernel, and keep those that wait to be accepted; Linux only."""
    if sys.platform == "linux":
        program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in DROP_NEW_CONNECTIONS))
        address = struct.pack("HP", len(DROP_NEW_CONNECTIONS), ctypes.addressof(program))
        listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, address)


def load(application: str) -> Any:
    """Load an application in a child process."""
    signal_when_parent_dies(signal.SIGTERM)
    return load_target(application)


def allow_connections(count: int) -> None:
    """Raise the limit of open files for this many connections, as far as the hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def share_metrics() -> None:
    """Share the metrics of this server's processes through files, and delete those of ended processes."""
    if settings.WEB_PROCESSES > 1:
        os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", str(settings.DATA_DIR / f"metrics/web-{settings.PORT}"))
    if folder := os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        for file in Path(folder).glob("*_*.db"):
            if not is_running(int(file.stem.rpartition("_")[2])):
                file.unlink(missing_ok=True)


def main(arguments: list[str]) -> int:
    """Serve until a signal; `application` defaults to the service."""
    try:
        listener = listen(settings.HOST, settings.PORT)
        share_metrics()
    except (CannotStart, ImproperlyConfigured) as problem:
        print(f"Cannot start: {problem}", file=sys.stderr)
        return 1
    allow_connections(MAX_CONNECTIONS)
    # The parent's handler, which processes inherit, would lose a signal that comes before they handle it themselves.
    os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))
    WebServer(arguments[0] if arguments else APPLICATION, listener).serve(target_loader=load)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
