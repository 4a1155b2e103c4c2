"""The cache that processes share, for rate limits and circuit breakers: an outage of Redis must not fail requests."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from django.core.cache.backends.redis import RedisCache
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, RedisError
from redis.retry import Retry

logger = logging.getLogger(__name__)

RETRY_SECONDS = 5.0
# A closed connection is retried, a timeout is not.
ONCE_MORE = Retry(NoBackoff(), 1, supported_errors=(ConnectionError,))


def _failing_open(name: str, fallback: Any) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._attempt(getattr(super(FailOpenRedisCache, self), name), fallback, *args, **kwargs)

    return method


class FailOpenRedisCache(RedisCache):
    """An empty cache while Redis is unavailable.

    After a failure Redis is not called for a few seconds, so that a Redis that hangs delays one request and not
    all of them. Failures are logged once for each such pause.
    """

    # For the whole process: Django creates one cache object per thread.
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
