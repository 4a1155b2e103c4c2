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

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import BaseCommand
from granian._internal import load_target
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
# After this many failed processes the server exits, if each failed within so many seconds of the last.
MAX_FAILED_PROCESSES = 5
FAILURE_SECONDS = 60
# Open files of a process that are not client connections.
OTHER_FILES = 1024
# A Linux socket filter that drops the first packet (SYN) of each new connection.
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

    By default each process opens its own: connections that wait to be accepted are then lost with a process that
    crashes or is replaced, and a port that another server uses is shared with it instead of rejected.
    """

    def __init__(self, application: str, listener: socket.socket) -> None:
        self.listener = listener
        self.failed_processes, self.failed_at = 0, 0.0
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
        # Not in the constructor: granian warns of lost connections there, as it opens a socket per process.
        self.workers_lifetime = PROCESS_LIFETIME_SECONDS
        super().startup(*args)

    def shutdown(self, exit_code: int = 0) -> None:
        threading.Thread(target=stop_listening, args=[self.listener]).start()
        super().shutdown(exit_code)

    def _respawn_workers(self, workers: list[int], *args: Any, **options: Any) -> None:
        # granian exits only if one process ends twice within seconds. An exception ends it with 1, a signal below 0.
        if failed := sum(self.wrks[index].inner.exitcode == 1 for index in workers):
            recent = self.failed_processes if time.monotonic() - self.failed_at <= FAILURE_SECONDS else 0
            self.failed_processes, self.failed_at = recent + failed, time.monotonic()
        if self.failed_processes >= MAX_FAILED_PROCESSES:
            print("The web processes keep failing: stopping. See the errors above.", file=sys.stderr)
            self.shutdown(1)
        super()._respawn_workers(workers, *args, **options)

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
        # Connections inherit it: the kernel closes one whose client leaves its response unread for this long.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, settings.CLIENT_TIMEOUT_SECONDS * 1000)
    listener.set_inheritable(True)
    return listener


def stop_listening(listener: socket.socket) -> None:
    """Accept new connections for half of the drain, then only those already queued, so that none is lost."""
    with listener:
        time.sleep(processes.DRAIN_SECONDS / 2)
        if sys.platform == "linux":
            program = b"".join(struct.pack("HBBI", *line) for line in DROP_NEW_CONNECTIONS)
            buffer = ctypes.create_string_buffer(program)
            address = struct.pack("HP", len(DROP_NEW_CONNECTIONS), ctypes.addressof(buffer))
            listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, address)


def load(application: str) -> Any:
    processes.signal_when_parent_dies(signal.SIGTERM)
    loaded = load_target(application)
    if apps.ready:  # not for an application without Django
        # Run the system checks, as management commands do: they validate NETWORKS_FILE.
        BaseCommand().check()
    return loaded


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
            if not processes.is_running(int(file.stem.rpartition("_")[2])):
                file.unlink(missing_ok=True)


def main(arguments: list[str]) -> int:
    """Serve until a signal: the service, or the application that an argument names."""
    try:
        listener = listen(settings.HOST, settings.PORT)
        share_metrics()
    except (CannotStart, ImproperlyConfigured) as problem:
        print(f"Cannot start: {problem}", file=sys.stderr)
        return 1
    allow_connections(MAX_CONNECTIONS)
    # Children inherit the parent's handler, which would lose a signal that arrives before they install their own.
    os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))
    server = WebServer(arguments[0] if arguments else "relayer_service.rsgi:application", listener)
    server.serve(target_loader=load)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
