"""Connections to the service: a pool for each process and each event loop."""

import asyncio
import os
import ssl
from typing import Any, Generic, TypeVar

import httpx

Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)
Place = tuple[int, asyncio.AbstractEventLoop | None]
Verify = bool | str | ssl.SSLContext
Proxy = str | httpx.Proxy
TIMEOUT_SECONDS = 30.0


class BasePools(Generic[Http]):
    """The pools of a client. Processes must not share one: after a fork, they would read each other's responses.

    A pool of the caller (`given`) is never closed, and used in the process and the event loop of its first use only.
    """

    def __init__(
        self, kind: type[Http], given: Http | None, *, timeout: float | None, verify: Verify, proxy: Proxy | None
    ) -> None:
        options = {"timeout": timeout, "verify": None if verify is True else verify, "proxy": proxy}
        if given is not None and (names := [name for name, value in options.items() if value is not None]):
            raise ValueError(f"{' and '.join(names)} cannot be set together with http: set it on your httpx client.")
        self._kind: type[Http] = kind
        self._given: Http | None = given
        self._options: dict[str, Any] = {"timeout": TIMEOUT_SECONDS if timeout is None else timeout}
        if given is None:
            # Loaded once: it takes longer than a request.
            self._options["verify"] = _tls(verify)
            self._options["proxy"] = httpx.Proxy(proxy) if isinstance(proxy, str) else proxy
        self._pools: dict[Place, Http] = {}
        self._is_closed = False

    def current(self) -> Http:
        """Return the pool of this process and event loop."""
        if self._is_closed:
            raise RuntimeError("The client is closed.")
        place = self._place()
        return self._pools.get(place) or self._add(place)

    def close(self) -> Http | None:
        """Return the pool that is left to close. Those of other processes and event loops cannot be closed here."""
        self._is_closed = True
        pool = None if self._given is not None else self._pools.get(self._place())
        self._pools.clear()
        return pool

    def _place(self) -> Place:
        return os.getpid(), None

    def _add(self, place: Place) -> Http:
        # Without a lock, which another thread may hold during a fork: each step is atomic.
        if self._given is not None:
            if self._pools.keys() - {place}:
                raise RuntimeError(
                    "Your httpx client (http) belongs to another process or event loop, whose connections cannot be "
                    "shared. Create both clients after the fork and in the event loop, or omit http."
                )
            return self._pools.setdefault(place, self._given)
        for process, loop in list(self._pools):
            if process != place[0] or (loop is not None and loop.is_closed()):
                self._pools.pop((process, loop), None)
        return self._pools.setdefault(place, self._kind(**self._options))


def _tls(verify: Verify) -> ssl.SSLContext:
    if isinstance(verify, str):
        return ssl.create_default_context(cafile=verify)
    return httpx.create_ssl_context(verify)


Pools = BasePools[httpx.Client]


class AsyncPools(BasePools[httpx.AsyncClient]):
    def _place(self) -> Place:
        return os.getpid(), asyncio.get_running_loop()
