"""When a token was used last: noted by the process that saw it, written by a worker.

A request thus pays for no write, and a token costs one task a minute at the most for each process.
"""

import logging
import time

from tokens.models import AccessToken
from tokens.tasks import record_use

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 60

_noted: dict[int, float] = {}


def note(token: AccessToken) -> None:
    now = time.monotonic()
    if now - _noted.get(token.pk, -INTERVAL_SECONDS) < INTERVAL_SECONDS:
        return
    _noted[token.pk] = now
    try:
        record_use(token.pk, time.time())
    except Exception:
        # The queue being away must not refuse a good token.
        logger.exception("The use of a token could not be queued")
