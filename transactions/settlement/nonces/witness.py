"""The witness of a lane: its generation, stored outside of the database before what was signed leaves.

One that is ahead of the database shows that a backup was restored, which lacks what was signed since. It is a file in
DATA_DIR and, if REDIS_URL is set, a key in Redis: either suffices. One that is missing or behind proves nothing. Its
name is random and part of the database, so that no other database is compared with it.
"""

import fcntl
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.core.cache import cache

from relayer_service.database.ttl_cache import TTLCache
from transactions.models import Lane

logger = logging.getLogger(__name__)

FOLDER = "witness"
KEY = "lane-witness:{}"
# Lanes whose witness cannot be written, and how often that is logged: each turn tries it again.
_reported: TTLCache[str, bool] = TTLCache()
REPORT_SECONDS = 3_600.0


def new_name() -> str:
    return uuid4().hex


def read(names: Iterable[str]) -> dict[str, int]:
    """Return the highest generation that each witness has stored; 0 if there is none."""
    found = {name: _read_file(name) for name in names}
    if settings.REDIS_URL and found:
        keys = {KEY.format(name): name for name in found}
        for key, generation in cache.get_many(keys).items():
            found[keys[key]] = max(found[keys[key]], generation)
    return found


def is_ahead(lane: Lane) -> bool:
    """Return whether a lane is behind its witness. Its row is locked: otherwise it may have been committed since."""
    return bool(lane.witness) and read([lane.witness])[lane.witness] > lane.generation


def write(lane: Lane) -> None:
    """Store the generation of a lane, unless a higher one is stored. If that fails, sending goes on."""
    is_stored = _write_file(lane.witness, lane.generation)
    if settings.REDIS_URL:
        shared: Any = cache
        is_stored |= shared.raise_to(KEY.format(lane.witness), lane.generation)
    if not is_stored and not _reported.get(lane.witness):
        _reported.set(lane.witness, True, REPORT_SECONDS)
        logger.error("The lane %s has no witness: a restored database would not be noticed", lane)


def _path(name: str) -> Path:
    return Path(settings.DATA_DIR, FOLDER, name)


def _read_file(name: str) -> int:
    try:
        return _number(_path(name).read_text())
    except (OSError, ValueError):
        return 0


def _write_file(name: str, generation: int) -> bool:
    path = _path(name)
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with path.open("a+") as file:
            # A worker that has lost its lease may be late.
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            if generation > _number(file.read()):
                file.truncate(0)
                file.write(str(generation))
    except (OSError, ValueError):
        return False
    return True


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
