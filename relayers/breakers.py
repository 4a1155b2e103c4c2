"""Which nodes are paused, shared by all processes through the cache.

Whether to ask a node is never a question of life and death: a cache that is down, or that forgets, lets all nodes be
asked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from django.conf import settings
from django.core.cache import cache

WINDOW_SECONDS = 60
PAUSE_SECONDS = 60


def _key(kind: str, url: str) -> str:
    # Not the URL itself: it may hold a key.
    return f"node-{kind}-{hashlib.sha256(url.encode()).hexdigest()[:32]}"


def paused(urls: Iterable[str]) -> set[str]:
    """Give those of the nodes that are paused."""
    keys = {_key("pause", url): url for url in urls}
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
    cache.set(_key("pause", url), True, seconds)
