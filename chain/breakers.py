"""The circuit breaker of each node: repeated failures pause it for all processes, through the shared cache.

A paused node is still called, after all others. If the cache is down, no node is paused.
"""

import hashlib
import time
from collections.abc import Iterable

from django.core.cache import cache

from relayer_service.storage.ttl_cache import TTLCache

# One failure may be chance; few are enough, as each costs a caller a timeout.
FAILURES_TO_PAUSE = 3
WINDOW_SECONDS = 60
PAUSE_SECONDS = 60

# For the metrics of this process, as the cache cannot be searched.
_paused_here: TTLCache[str, bool] = TTLCache()


def _key(kind: str, url: str) -> str:
    # A hash, as the URL may contain an API key.
    return f"node-{kind}-{hashlib.sha256(url.encode()).hexdigest()[:32]}"


def paused(urls: Iterable[str], chain_id: int | None = None) -> set[str]:
    """Return the nodes that are paused, for every chain or for this one."""
    urls = list(urls)
    keys = {_key(kind, url): url for url in urls for kind in ("pause", f"chain-{chain_id}")}
    return {keys[key] for key in cache.get_many(keys)}


def note_failure(url: str) -> None:
    key = _key("failures", url)
    cache.add(key, 0, WINDOW_SECONDS)
    try:
        failures = cache.incr(key)
    except ValueError:
        # It has expired.
        return
    # None if the cache is down.
    if failures and failures >= FAILURES_TO_PAUSE:
        pause(url, PAUSE_SECONDS)


def pause(url: str, seconds: float) -> None:
    """Pause a node; a shorter pause does not replace a longer one."""
    key, until = _key("pause", url), time.time() + seconds
    if (cache.get(key) or 0) < until:
        cache.set(key, until, seconds)
        _paused_here.set(key, True, seconds)


def paused_by_this_process() -> int:
    return _paused_here.count()


def pause_for_chain(url: str, chain_id: int | None, seconds: float) -> None:
    """Pause a node for this chain only: it may serve another one."""
    cache.set(_key(f"chain-{chain_id}", url), True, seconds)
