"""The last use of a token: noted by the process that saw it, written by a worker.

So a request makes no write, and a token costs at most one task a minute in each process.
"""

import logging
import time

from relayer_service.storage.ttl_cache import TTLCache
from tokens.models import AccessToken
from tokens.tasks import record_use

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 60

_noted: TTLCache[int, bool] = TTLCache()


def note(token: AccessToken) -> None:
    if _noted.get(token.pk):
        return
    _noted.set(token.pk, True, INTERVAL_SECONDS)
    try:
        record_use(token.pk, time.time())
    except Exception:
        # A queue that is down must not refuse a good token.
        logger.exception("The use of a token could not be queued")
