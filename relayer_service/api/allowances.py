"""What a token can use per period, counted in the shared cache.

A process takes a part of it at a time, so that most requests need no round trip; what is left of a part at the end of
the period is lost. While the cache is unavailable, nothing is limited.
"""

import math
import threading
import time

from relayer_service.database.caches import count
from relayer_service.database.ttl_cache import TTLCache

# Of the counter in the cache: clocks differ.
MARGIN_SECONDS = 5

_left: TTLCache[str, int] = TTLCache()
_lock = threading.Lock()


def take(name: str, amount: int, limit: int, seconds: int, part: int) -> int:
    """Use an amount of a limit per period; return 0, or the seconds until the next period if too little is left."""
    now = time.time()
    period = int(now // seconds)
    key = f"allowance:{name}:{limit}/{seconds}:{period}"
    if _take(key, amount, 0, seconds) or _take(key, amount, _lease(key, max(amount, part), limit, seconds), seconds):
        return 0
    return math.ceil((period + 1) * seconds - now)


def _take(key: str, amount: int, leased: int, seconds: int) -> bool:
    with _lock:
        left = (_left.get(key) or 0) + leased
        is_enough = amount <= left
        _left.set(key, left - amount if is_enough else left, seconds)
    return is_enough


def _lease(key: str, wanted: int, limit: int, seconds: int) -> int:
    """Return how much of what is wanted this process can use: the cache counts it, also beyond the limit."""
    total = count(key, wanted, seconds + MARGIN_SECONDS)
    return wanted if total is None else max(0, wanted - max(0, total - limit))
