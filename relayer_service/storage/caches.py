"""The cache that processes share, for rate limits and circuit breakers: its loss must never stop an answer."""

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
# A connection that Redis closed is tried once more; a Redis that hangs is not.
ONCE_MORE = Retry(NoBackoff(), 1, supported_errors=(ConnectionError,))


class FailOpenRedisCache(RedisCache):
    """Answer as an empty cache while Redis cannot be reached.

    After a failure Redis is not called for a few seconds, so that a Redis that hangs delays one request and not
    all of them. Failures are logged once for each such pause.
    """

    # For the whole process: Django makes one cache object a thread.
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
            logger.error("Redis cannot be reached (%s): rate limits are not enforced", type(error).__name__)
            return fallback

    def add(self, *args: Any, **kwargs: Any) -> Any:
        return self._attempt(super().add, False, *args, **kwargs)

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        return self._attempt(super().get, default, key, default, version)

    def set(self, *args: Any, **kwargs: Any) -> None:
        self._attempt(super().set, None, *args, **kwargs)

    def incr(self, *args: Any, **kwargs: Any) -> Any:
        return self._attempt(super().incr, None, *args, **kwargs)

    def touch(self, *args: Any, **kwargs: Any) -> Any:
        return self._attempt(super().touch, False, *args, **kwargs)

    def has_key(self, *args: Any, **kwargs: Any) -> Any:
        return self._attempt(super().has_key, False, *args, **kwargs)

    def get_many(self, *args: Any, **kwargs: Any) -> Any:
        return self._attempt(super().get_many, {}, *args, **kwargs)

    def set_many(self, *args: Any, **kwargs: Any) -> Any:
        return self._attempt(super().set_many, [], *args, **kwargs)

    def delete_many(self, *args: Any, **kwargs: Any) -> None:
        self._attempt(super().delete_many, None, *args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> Any:
        return self._attempt(super().delete, False, *args, **kwargs)

    def ping(self) -> bool:
        """Return whether Redis answers now; one that hangs holds a single caller, and others get the last answer."""
        if FailOpenRedisCache.pinging.acquire(blocking=False):
            try:
                FailOpenRedisCache.answered = bool(self._cache.get_client().ping())
            except (RedisError, OSError):
                FailOpenRedisCache.answered = False
            finally:
                FailOpenRedisCache.pinging.release()
        return FailOpenRedisCache.answered
