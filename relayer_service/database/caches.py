"""The cache that processes share, for rate limits and circuit breakers: an outage of Redis must not fail requests."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.core.cache import cache
from django.core.cache.backends.redis import RedisCache
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, RedisError
from redis.retry import Retry

logger = logging.getLogger(__name__)

RETRY_SECONDS = 5.0
# A closed connection is retried, a timeout is not.
ONCE_MORE = Retry(NoBackoff(), 1, supported_errors=(ConnectionError,))
# Both numbers are exact in Lua up to 2^53.
RAISE = """
if tonumber(ARGV[1]) > tonumber(redis.call('GET', KEYS[1]) or '0') then redis.call('SET', KEYS[1], ARGV[1]) end
"""


def count(key: str, amount: int, seconds: int) -> int | None:
    """Add to a counter of the shared cache, which ends after this time; return None while it is unavailable."""
    cache.add(key, 0, seconds)
    total: int | None = None
    # It may have been evicted.
    with suppress(ValueError):
        total = cache.incr(key, amount)
    return total


def _failing_open(name: str, fallback: Any) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._attempt(getattr(super(FailOpenRedisCache, self), name), fallback, *args, **kwargs)

    return method


class FailOpenRedisCache(RedisCache):
    """An empty cache while Redis is unavailable.

    After a failure Redis is not called for a few seconds, so that a Redis that hangs delays one request and not
    all of them. Failures are logged once for each such pause.
    """

    # The class has the state of the process: Django creates one cache object per thread.
    down_until = 0.0
    pinging = threading.Lock()
    answered = False

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        super().__init__(server, params | {"OPTIONS": {"retry": ONCE_MORE, **params.get("OPTIONS", {})}})

    def _attempt(self, call: Callable[..., Any], fallback: Any, *args: Any, **kwargs: Any) -> Any:
        if time.monotonic() < FailOpenRedisCache.down_until:
            return fallback
        try:
            return call(*args, **kwargs)
        except (RedisError, OSError) as error:
            FailOpenRedisCache.down_until = time.monotonic() + RETRY_SECONDS
            logger.error("Redis is unavailable (%s): rate limits are not enforced", type(error).__name__)
            return fallback

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        return self._attempt(super().get, default, key, default, version)

    add = _failing_open("add", False)
    set = _failing_open("set", None)
    incr = _failing_open("incr", None)
    touch = _failing_open("touch", False)
    has_key = _failing_open("has_key", False)
    get_many = _failing_open("get_many", {})
    set_many = _failing_open("set_many", [])
    delete = _failing_open("delete", False)
    delete_many = _failing_open("delete_many", None)

    def raise_to(self, key: str, number: int) -> bool:
        """Store a number for good, unless a higher one is stored; return False if Redis is unavailable."""
        return bool(self._attempt(self._raise_to, False, key, number))

    def _raise_to(self, key: str, number: int) -> bool:
        self._cache.get_client(write=True).eval(RAISE, 1, self.make_and_validate_key(key), number)
        return True

    def ping(self) -> bool:
        """Return whether Redis responds; while one caller waits for it, others get the last result."""
        if FailOpenRedisCache.pinging.acquire(blocking=False):
            try:
                FailOpenRedisCache.answered = bool(self._cache.get_client().ping())
            except (RedisError, OSError):
                FailOpenRedisCache.answered = False
            finally:
                FailOpenRedisCache.pinging.release()
        return FailOpenRedisCache.answered
