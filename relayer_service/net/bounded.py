"""HTTP responses with a maximum size and a deadline, for any client.

`node_http` sends requests to nodes itself. The clients of AWS and Google use urllib3, whose timeout is for each read:
a server that sends a byte every few seconds would never time out. They share the reader and not the requests, as each
of these clients keeps its own connections.
"""

import http.client
import io
import socket
import time
from collections.abc import Mapping
from functools import cache
from typing import Any


class AnswerTooLarge(http.client.HTTPException):
    """A response exceeded the maximum size."""


def time_left(deadline: float) -> float:
    """Return the seconds until a deadline in monotonic time; raise TimeoutError if there are none."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class BoundedReader(io.RawIOBase):
    """The received bytes of a socket, until a deadline and up to a maximum size.

    A file of the same socket is closed with it: until then it keeps the socket open, even if the connection is closed.
    """

    def __init__(
        self, connection: socket.socket, deadline: float, max_bytes: int, file: io.BufferedIOBase | None = None
    ) -> None:
        self._connection, self._deadline, self._max_bytes, self._file = connection, deadline, max_bytes, file
        self.received = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connection.settimeout(time_left(self._deadline))
        count = self._connection.recv_into(buffer)
        self.received += count
        if self.received > self._max_bytes:
            raise AnswerTooLarge
        return count

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()


def bounded_pools(pools: Mapping[str, Any], seconds: float, max_bytes: int) -> dict[str, Any]:
    """Return classes for urllib3's connection pools, by scheme, that read bounded responses."""
    return {scheme: _bounded_pool(pool, seconds, max_bytes) for scheme, pool in pools.items()}


def bounded_adapter(seconds: float, max_bytes: int) -> Any:
    """Return an adapter for a session of requests that reads bounded responses."""
    from requests.adapters import HTTPAdapter
    from urllib3.poolmanager import pool_classes_by_scheme

    pools = bounded_pools(pool_classes_by_scheme, seconds, max_bytes)

    class BoundedAdapter(HTTPAdapter):
        def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
            super().init_poolmanager(*args, **kwargs)
            self.poolmanager.pool_classes_by_scheme = pools

        def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
            manager = super().proxy_manager_for(*args, **kwargs)
            manager.pool_classes_by_scheme = pools
            return manager

    return BoundedAdapter()


@cache
def _bounded_pool(pool: Any, seconds: float, max_bytes: int) -> Any:
    class BoundedResponse(http.client.HTTPResponse):
        def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
            super().__init__(sock, *args, **kwargs)
            self.fp = io.BufferedReader(BoundedReader(sock, time.monotonic() + seconds, max_bytes, file=self.fp))

    connection = type(pool.ConnectionCls.__name__, (pool.ConnectionCls,), {"response_class": BoundedResponse})
    return type(pool.__name__, (pool,), {"ConnectionCls": connection})
