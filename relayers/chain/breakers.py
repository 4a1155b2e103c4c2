"""Which nodes are paused, shared by all processes through the cache.

Whether to ask a node is never a question of life and death: a cache that is down, or that forgets, lets all nodes be
asked.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable

from django.conf import settings
from django.core.cache import cache

WINDOW_SECONDS = 60
PAUSE_SECONDS = 60


def _key(kind: str, url: str) -> str:
    # Not the URL itself: it may hold a key.
    return f"node-{kind}-{hashlib.sha256(url.encode()).hexdigest()[:32]}"


def paused(urls: Iterable[str], chain_id: int | None = None) -> set[str]:
    """Give those of the nodes that are paused, for all or for those who want this chain."""
    urls = list(urls)
    keys = {_key(kind, url): url for url in urls for kind in ("pause", f"chain-{chain_id}")}
    return {keys[key] for key in cache.get_many(keys)}


def note_failure(url: str) -> None:
    """Count a failure, and pause the node after some within a minute."""
    key = _key("failures", url)
    cache.add(key, 0, WINDOW_SECONDS)
    try:
        failures = cache.incr(key)
    except ValueError:
        # It ran out between the two.
        return
    # A cache that is down does not count.
    if failures and failures >= settings.NODE_FAILURES_TO_PAUSE:
        pause(url, PAUSE_SECONDS)


def pause(url: str, seconds: float) -> None:
    """Pause a node, and never for less than it is paused already."""
    key, until = _key("pause", url), time.time() + seconds
    if (cache.get(key) or 0) < until:
        cache.set(key, until, seconds)


def pause_for_chain(url: str, chain_id: int | None, seconds: float) -> None:
    """Pause a node for those who want this chain: to others it may be the right one."""
    cache.set(_key(f"chain-{chain_id}", url), True, seconds)
