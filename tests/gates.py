"""A gate in front of the real PostgreSQL of the tests: it can be closed, or take connections and stay silent."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from django.db import connection

from tests import processes
from tests.servers import free_port


class Gate:
    def __init__(self) -> None:
        self.port = free_port()
        self.silent = False
        self._listener: socket.socket | None = None
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    @property
    def url(self) -> str:
        """Return the URL of the test database behind the gate."""
        parts = urlsplit(processes.database_url())
        user = parts.netloc.rpartition("@")[0]
        return urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{self.port}", query=""))

    @property
    def configuration(self) -> dict[str, Any]:
        return connection.settings_dict | {"HOST": "127.0.0.1", "PORT": str(self.port)}

    def open(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._start(self._accept, self._listener)

    def close(self) -> None:
        """Refuse connections, and cut those that there are."""
        if self._listener is not None:
            # A thread that waits in `accept` keeps the socket open.
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in self._sockets:
            each.close()
        self._sockets, self._threads = [], []

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client = listener.accept()[0]
                self._sockets.append(client)
                if not self.silent:
                    server = connect_to_server()
                    self._sockets.append(server)
                    self._start(forward, client, server)
                    self._start(forward, server, client)

    def _start(self, function: Callable[..., None], *sockets: socket.socket) -> None:
        thread = threading.Thread(target=function, args=sockets, daemon=True)
        self._threads.append(thread)
        thread.start()


def connect_to_server() -> socket.socket:
    host, port = str(connection.settings_dict["HOST"]), int(connection.settings_dict["PORT"] or 5432)
    if not host.startswith("/"):
        return socket.create_connection((host or "127.0.0.1", port))
    server = socket.socket(socket.AF_UNIX)
    server.connect(f"{host}/.s.PGSQL.{port}")
    return server


def forward(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextmanager
def gate() -> Iterator[Gate]:
    found = Gate()
    found.open()
    try:
        yield found
    finally:
        found.close()
