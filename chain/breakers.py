"""The circuit breaker of each node: after failures it is paused, for all processes, through the shared cache.

A paused node is asked last, not never. With a cache that is down, no node is paused.
"""

import hashlib
import time
from collections.abc import Iterable

from django.core.cache import cache

from relayer_service.storage.ttl_cache import TTLCache

# One failure may be chance; a node that is away costs each caller a timeout, so that few are enough.
FAILURES_TO_PAUSE = 3
WINDOW_SECONDS = 60
PAUSE_SECONDS = 60

# The nodes that this process has paused, for its metrics: the cache cannot be searched.
_paused_here: TTLCache[str, bool] = TTLCache()


def _key(kind: str, url: str) -> str:
    # Not the URL itself: it may hold a key.
    return f"node-{kind}-{hashlib.sha256(url.encode()).hexdigest()[:32]}"


def paused(urls: Iterable[str], chain_id: int | None = None) -> set[str]:
    """Return which of the nodes are paused, for everyone or for callers of this chain."""
    urls = list(urls)
    keys = {_key(kind, url): url for url in urls for kind in ("pause", f"chain-{chain_id}")}
    return {keys[key] for key in cache.get_many(keys)}


def note_failure(url: str) -> None:
    """Count a failure, and pause the node after FAILURES_TO_PAUSE of them within a minute."""
    key = _key("failures", url)
    cache.add(key, 0, WINDOW_SECONDS)
    try:
        failures = cache.incr(key)
    except ValueError:
        # It expired in between.
        return
    # None from a cache that is down.
    if failures and failures >= FAILURES_TO_PAUSE:
        pause(url, PAUSE_SECONDS)


def pause(url: str, seconds: float) -> None:
    """Pause a node; a shorter pause does not replace a longer one."""
    key, until = _key("pause", url), time.time() + seconds
    if (cache.get(key) or 0) < until:
        cache.set(key, until, seconds)
        _paused_here.set(key, True, seconds)


def paused_by_this_process() -> int:
    """Return how many nodes this process has paused that still are."""
    return _paused_here.count()


def pause_for_chain(url: str, chain_id: int | None, seconds: float) -> None:
    """Pause a node for callers of this chain: for others it may be the right one."""
    cache.set(_key(f"chain-{chain_id}", url), True, seconds)
