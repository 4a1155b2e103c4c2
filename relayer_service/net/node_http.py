"""HTTP requests to nodes in the calling thread, much faster than on an event loop, with the policy of `outgoing`.

An address is checked on connect, TLS is verified; redirects, cookies and proxies of the environment are ignored.
"""

import base64
import http.client
import io
import select
import socket
import ssl
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import cast

from yarl import URL

from relayer_service.background import pools
from relayer_service.background.pools import ProcessState
from relayer_service.net import dns, outgoing
from relayer_service.net.bounded import AnswerTooLarge, BoundedReader, time_left
from relayer_service.observability import tracing

PART_BYTES = 65_536


class CannotConnect(OSError):
    """No connection was made."""


class Unanswered(ConnectionError):
    """A connection ended before the first byte of a response."""


@dataclass(frozen=True)
class Target:
    """The host of a URL, and the head of a request, which may contain secrets."""

    tls: bool
    host: str
    port: int
    head: bytes = field(repr=False, compare=False)


def post(url: str, body: bytes, *, deadline: float, max_bytes: int) -> outgoing.Answer:
    """Make one idempotent POST request; raise TimeoutError if it is not complete by the deadline, in monotonic time.

    It continues the current trace. If the server closes an idle connection just as it is reused, the request is sent
    again on a new one.
    """
    target = split(url)
    trace = "".join(f"{name}: {value}\r\n" for name, value in tracing.headers().items()).encode()
    request = b"%b%d\r\n%b\r\n%b" % (target.head, len(body), trace, body)
    if (connection := _idle.take(target)) is not None:
        try:
            return _exchange(connection, target, request, deadline, max_bytes)
        except Unanswered:
            pass
    return _exchange(_connect(target, deadline), target, request, deadline, max_bytes)


@lru_cache(maxsize=1024)
def split(url: str) -> Target:
    """Return the target of a URL; raise ValueError if it has none."""
    parts = URL(url)
    if parts.scheme not in {"http", "https"} or not parts.raw_host or not parts.port:
        raise ValueError("not an HTTP URL")
    headers = {"Host": parts.host_port_subcomponent, "Accept": "*/*", **outgoing.UNCOMPRESSED_HEADERS}
    if parts.user is not None or parts.password is not None:
        credentials = f"{parts.user or ''}:{parts.password or ''}".encode("latin-1")
        headers["Authorization"] = f"Basic {base64.b64encode(credentials).decode()}"
    lines = [f"POST {parts.raw_path_qs} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    head = "\r\n".join([*lines, "Content-Length: "]).encode("ascii")
    return Target(parts.scheme == "https", parts.raw_host, parts.port, head)


def unpack(text: bytes, encoding: str, max_bytes: int) -> bytes:
    """Return the content of a response; some servers compress it although the request does not accept that."""
    if encoding.strip().lower() not in {"gzip", "x-gzip", "deflate"}:
        return text
    try:
        # Detects the format, gzip or zlib.
        content = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(text, max_bytes + 1)
    except zlib.error:
        raise http.client.HTTPException("not in its encoding") from None
    if len(content) > max_bytes:
        raise AnswerTooLarge
    return content


class _Stream(BoundedReader):
    """A connection as `http.client` reads it."""

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def send(self, text: bytes) -> None:
        # Not `sendall`, which restarts its timeout for each part that it sends over TLS.
        rest = memoryview(text)
        while rest:
            self._connection.settimeout(time_left(self._deadline))
            rest = rest[self._connection.send(rest) :]


def _exchange(
    connection: socket.socket, target: Target, request: bytes, deadline: float, max_bytes: int
) -> outgoing.Answer:
    stream = _Stream(connection, deadline, max_bytes)
    keep = False
    try:
        # A server may reject a long request before it has read all of it, and still send a response.
        with suppress(ConnectionError):
            stream.send(request)
        response = http.client.HTTPResponse(cast(socket.socket, stream), method="POST")
        response.begin()
        # The response is read in parts, as the server may announce any length.
        text = b"".join(iter(lambda: response.read(PART_BYTES), b""))
        if response.length:
            raise http.client.IncompleteRead(text, response.length)
        keep = not response.will_close
    except TimeoutError:
        raise
    except OSError as error:
        raise (ConnectionError if stream.received else Unanswered)("the connection broke") from error
    finally:
        if keep:
            _idle.keep(target, connection)
        else:
            connection.close()
    content = unpack(text, response.headers.get("Content-Encoding", ""), max_bytes)
    # It has the methods of a Mapping.
    return outgoing.Answer(response.status, cast(Mapping[str, str], response.headers), content)


def _connect(target: Target, deadline: float) -> socket.socket:
    failure: Exception = CannotConnect()
    found = dns.resolve(target.host, target.port, time_left(deadline))
    for position, address_info in enumerate(found):
        try:
            connection = outgoing.guarded_socket(outgoing.is_allowed_server, address_info)
            try:
                # A share of the time for each address, so that one that hangs leaves time for the next.
                until = time.monotonic() + time_left(deadline) / (len(found) - position)
                connection.settimeout(time_left(until))
                connection.connect(address_info[4])
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.settimeout(time_left(until))
                if target.tls:
                    return _tls().wrap_socket(connection, server_hostname=target.host.rstrip("."))
                return connection
            except BaseException:
                connection.close()
                raise
        except (OSError, ValueError) as error:
            failure = error
    if isinstance(failure, (TimeoutError, ssl.SSLError, outgoing.ForbiddenAddress)):
        raise failure
    raise CannotConnect("no address could be connected to") from failure


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


class _IdleConnections(ProcessState):
    """Idle connections of a process, the most recently used last."""

    def __init__(self) -> None:
        # Each connection has its target and the time at which it expires.
        self._idle: list[tuple[Target, socket.socket, float]] = []
        super().__init__()

    def reset(self) -> None:
        super().reset()
        # A forked process must not use its parent's connections.
        self._drop_old(0)

    def take(self, target: Target) -> socket.socket | None:
        """Return a connection to a target, unless its server has closed it or sent unsolicited data."""
        while (connection := self._pop(target)) is not None:
            poll = select.poll()
            poll.register(connection, select.POLLIN)
            if not poll.poll(0):
                return connection
            connection.close()
        return None

    def keep(self, target: Target, connection: socket.socket) -> None:
        """Add a connection; in a full list it replaces the oldest."""
        with self._lock:
            self._drop_old(pools.NODE_THREADS - 1)
            self._idle.append((target, connection, time.monotonic() + outgoing.KEEP_ALIVE_SECONDS))

    def _pop(self, target: Target) -> socket.socket | None:
        with self._lock:
            self._drop_old(pools.NODE_THREADS)
            for position in range(len(self._idle) - 1, -1, -1):
                if self._idle[position][0] == target:
                    return self._idle.pop(position)[1]
        return None

    def _drop_old(self, maximum: int) -> None:
        now = time.monotonic()
        while self._idle and (len(self._idle) > maximum or self._idle[0][2] < now):
            self._idle.pop(0)[1].close()


_idle = _IdleConnections()
