"""DNS lookups with a timeout, for threads: a name server may hang."""

import socket
from concurrent.futures import Future
from typing import Any

from relayer_service.background import pools
from relayer_service.background.pools import ProcessState
from relayer_service.database.ttl_cache import TTLCache
from relayer_service.net import addresses

# How long a result, or a lookup that hangs, is cached.
KEEP_SECONDS = 10


class _Resolver(ProcessState):
    def reset(self) -> None:
        super().reset()
        self._pool: pools.Pool | None = None
        self._found: TTLCache[tuple[str, int], Future[list[Any]]] = TTLCache()

    def resolve(self, host: str, port: int, seconds: float) -> list[Any]:
        """Return the result of `getaddrinfo`; raise TimeoutError if it takes longer than `seconds`.

        Threads that wait for the same name share one lookup, so that a name that hangs holds one thread.
        """
        if addresses.literal_address(host):
            return _look_up(host, port, socket.AI_NUMERICHOST)
        with self._lock:
            found = self._found.get((host, port))
            if found is None:
                self._pool = self._pool or pools.Pool("nodes-resolver", pools.RESOLVER_THREADS)
                found = self._pool.submit(_look_up, host, port, socket.AI_ADDRCONFIG)
                self._found.set((host, port), found, KEEP_SECONDS)
        try:
            return found.result(seconds)
        except Exception:
            if found.done():
                self._found.remove((host, port))
            raise


def _look_up(host: str, port: int, flags: int) -> list[Any]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)


resolve = _Resolver().resolve
