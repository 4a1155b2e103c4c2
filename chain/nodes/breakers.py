"""The circuit breaker of each node: repeated failures pause it for all processes, through the shared cache.

A paused node is still called, after all others, and so is one that staff have taken out. If the cache is down, no node
is paused.
"""

import time
from collections.abc import Iterable

from django.core.cache import cache

from chain.nodes.observers import node_key
from relayer_service.database.ttl_cache import TTLCache

# One failure may be chance; few are enough, as each costs a caller a timeout.
FAILURES_TO_PAUSE = 3
WINDOW_SECONDS = 60
PAUSE_SECONDS = 60

# For the metrics of this process, as the cache cannot be searched.
_paused_here: TTLCache[str, bool] = TTLCache()
# The keys of nodes that staff have taken out.
_taken_out: frozenset[str] = frozenset()


def _key(kind: str, url: str) -> str:
    return f"node-{kind}-{node_key(url)}"


def paused(urls: Iterable[str], chain_id: int | None = None) -> set[str]:
    """Return the nodes that are paused, for every chain or for this one."""
    urls = list(urls)
    keys = {_key(kind, url): url for url in urls for kind in ("pause", f"chain-{chain_id}")}
    return {keys[key] for key in cache.get_many(keys)}


def avoided(urls: Iterable[str], chain_id: int | None = None) -> set[str]:
    """Return the nodes to call after all others: those that are paused or taken out."""
    urls = list(urls)
    return paused(urls, chain_id) | {url for url in urls if node_key(url) in _taken_out}


def set_taken_out(keys: Iterable[str]) -> None:
    """Replace the set of nodes that this process calls last, whatever their breakers say."""
    global _taken_out
    _taken_out = frozenset(keys)


def pauses(keys: Iterable[str]) -> dict[str, float]:
    """Return until when nodes are paused for every chain, in seconds since the epoch, by their keys."""
    names = {f"node-pause-{key}": key for key in keys}
    return {names[name]: until for name, until in cache.get_many(names).items()}


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
