"""The database's clock, by which work is due: the clocks of processes may differ."""

import time
from datetime import datetime
from typing import Any

from django.db import DEFAULT_DB_ALIAS
from django.db.models.functions import Now
from django.db.models.sql import Query

from relayer_service.database.ttl_cache import TTLCache

# By how many seconds the database's clock is ahead of this machine's, and how long that is trusted.
_offset: TTLCache[str, float] = TTLCache()
OFFSET_SECONDS = 60


class DatabaseNow(Now):
    """The current time in SQL; on PostgreSQL the start of the statement, even in a transaction."""

    def as_sqlite(self, compiler: Any, connection: Any, **extra_context: Any) -> Any:
        # SQLite counts milliseconds and compares text, columns have microseconds: the end of the current millisecond
        # is not before any time stored until now.
        template = "STRFTIME('%%%%Y-%%%%m-%%%%d %%%%H:%%%%M:%%%%f999', 'NOW')"
        return self.as_sql(compiler, connection, template=template, **extra_context)


def timestamp(moment: datetime) -> str:
    """Return a time in UTC in the format of API responses and webhook bodies."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def database_now() -> datetime:
    query = Query(None)
    query.add_annotation(DatabaseNow(), "now")
    ((now,),) = query.get_compiler(DEFAULT_DB_ALIAS).results_iter()
    assert isinstance(now, datetime)
    note_time(now)
    return now


def note_time(now: datetime) -> None:
    """Note the database's time, which was just read with other values."""
    _offset.set("", now.timestamp() - time.time(), OFFSET_SECONDS)


def shared_time() -> float:
    """Return the time by the database's clock, without a query; by this machine's if that was not read recently."""
    return time.time() + (_offset.get("") or 0)
