"""Limits on the time and size of a whole answer for the clients of AWS and Google, which have none.

Both use urllib3, whose timeout is for each read: a server that sends a byte every few seconds would never time out.
"""

from __future__ import annotations

import http.client
import io
import socket
import threading
from abc import abstractmethod
from collections.abc import Mapping
from functools import cache
from time import monotonic
from typing import Any, ClassVar

from signers.backends.base import Secp256k1Backend, SignerError
from signers.backends.http import MAX_ANSWER_BYTES

CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 10.0


class ClientBackend(Secp256k1Backend):
    """A key behind the client of its provider, made once: threads may share it, but not make it at the same time."""

    provider: ClassVar[str]

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self._lock = threading.Lock()
        self._made: Any = None

    @abstractmethod
    def _connect(self) -> Any:
        """Return a client that reads only bounded answers."""

    def _client(self) -> Any:
        with self._lock:
            if self._made is None:
                self._made = self._connect()
            return self._made

    def _not_understood(self) -> SignerError:
        return SignerError(f"{self.provider} gave an answer that cannot be understood.", permanent=False)


class _Reader(io.RawIOBase):
    """What a socket receives, up to a maximum size and time."""

    def __init__(self, raw: Any, sock: socket.socket) -> None:
        self._raw, self._sock = raw, sock
        self._until, self._bytes_left = monotonic() + ANSWER_SECONDS, MAX_ANSWER_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        seconds = self._until - monotonic()
        if seconds <= 0:
            raise TimeoutError
        usual = self._sock.gettimeout()
        self._sock.settimeout(seconds)
        try:
            count: int = self._raw.readinto(buffer)
        finally:
            self._sock.settimeout(usual)
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise http.client.HTTPException("the answer is too large")
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class BoundedResponse(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp = io.BufferedReader(_Reader(self.fp.detach(), sock))


@cache
def _bounded_pool(pool: Any) -> Any:
    connection = type(pool.ConnectionCls.__name__, (pool.ConnectionCls,), {"response_class": BoundedResponse})
    return type(pool.__name__, (pool,), {"ConnectionCls": connection})


def bounded_pools(pools: Mapping[str, Any]) -> dict[str, Any]:
    """Return classes for urllib3's connection pools, by scheme, that read only bounded answers."""
    return {scheme: _bounded_pool(pool) for scheme, pool in pools.items()}


def bounded_adapter() -> Any:
    """Return an adapter for a session of requests that reads only bounded answers."""
    from requests.adapters import HTTPAdapter
    from urllib3.poolmanager import pool_classes_by_scheme

    class BoundedAdapter(HTTPAdapter):
        def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
            super().init_poolmanager(*args, **kwargs)
            self.poolmanager.pool_classes_by_scheme = bounded_pools(pool_classes_by_scheme)

        def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
            manager = super().proxy_manager_for(*args, **kwargs)
            manager.pool_classes_by_scheme = bounded_pools(pool_classes_by_scheme)
            return manager

    return BoundedAdapter()
