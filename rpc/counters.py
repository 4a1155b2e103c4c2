"""Counting JSON-RPC calls by relayer, minute, method and outcome, and over all relayers by hour and outcome.

A call adds to the counts of its process, in memory; a thread writes them every few seconds, and the process writes the
rest when it exits. So counting costs a request no query; a killed process loses its last seconds.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import close_old_connections, connection, transaction
from django.utils import timezone

from relayer_service.background.pools import ProcessState
from rpc import metrics
from rpc.models import CallCount

logger = logging.getLogger(__name__)

WRITE_SECONDS = 2
BATCH_SIZE = 500
# In memory, while the database is down.
MAX_ROWS = 20_000

METHOD_LENGTH = CallCount._meta.get_field("method").max_length
OUTCOME_LENGTH = CallCount._meta.get_field("outcome").max_length

ADD_TO_STORED = """DO UPDATE SET
  calls = stored.calls + excluded.calls,
  milliseconds = stored.milliseconds + excluded.milliseconds,
  slowest_milliseconds = CASE
    WHEN excluded.slowest_milliseconds > stored.slowest_milliseconds THEN excluded.slowest_milliseconds
    ELSE stored.slowest_milliseconds
  END
"""
# Processes add to the same rows: the same order prevents deadlocks. A relayer may have been deleted.
WRITE = """
WITH gathered (relayer_id, minute, method, outcome, calls, milliseconds, slowest_milliseconds) AS (VALUES {rows})
INSERT INTO rpc_callcount AS stored (relayer_id, minute, method, outcome, calls, milliseconds, slowest_milliseconds)
SELECT * FROM gathered WHERE relayer_id IN (SELECT sequence FROM relayers_relayer)
ORDER BY relayer_id, minute, method, outcome
ON CONFLICT (relayer_id, minute, method, outcome)
"""

WRITE_HOURS = """
INSERT INTO rpc_callhour AS stored (hour, outcome, calls, milliseconds, slowest_milliseconds) VALUES {rows}
ON CONFLICT (hour, outcome)
"""

Key = tuple[int, datetime, str, str]


@dataclass(slots=True)
class Tally:
    calls: int = 0
    seconds: float = 0.0
    slowest: float = 0.0

    def add(self, other: Tally) -> None:
        self.calls += other.calls
        self.seconds += other.seconds
        self.slowest = max(self.slowest, other.slowest)


class CallCounter(ProcessState):
    """The unwritten counts of this process; a forked process starts with none."""

    def __init__(self) -> None:
        # Tests disable it and flush explicitly.
        self.writes_by_itself = True
        super().__init__()
        atexit.register(self.flush_and_close)

    def reset(self) -> None:
        super().reset()
        self._writing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._tallies: dict[Key, Tally] = {}

    def add(self, key: Key, tally: Tally) -> None:
        with self._lock:
            self._tallies.setdefault(key, Tally()).add(tally)
            if self.writes_by_itself and (self._thread is None or not self._thread.is_alive()):
                self._thread = threading.Thread(target=self._write_forever, name="call-counter", daemon=True)
                self._thread.start()

    def flush(self) -> None:
        """Write the counts; those that cannot be written wait for the next run."""
        with self._writing:
            with self._lock:
                taken, self._tallies = self._tallies, {}
            rows = list(taken.items())
            try:
                while rows:
                    write(rows[:BATCH_SIZE])
                    del rows[:BATCH_SIZE]
            except Exception:
                logger.exception("Cannot write the call counts; will retry")
                self._put_back(rows)

    def flush_and_close(self) -> None:
        self.flush()
        close_old_connections()

    def _put_back(self, rows: Sequence[tuple[Key, Tally]]) -> None:
        with self._lock:
            for key, tally in rows:
                self._tallies.setdefault(key, Tally()).add(tally)
            excess = len(self._tallies) - MAX_ROWS
            if excess <= 0:
                return
            for key in sorted(self._tallies, key=lambda key: key[1])[:excess]:
                del self._tallies[key]
        logger.error("Dropped the oldest call counts, as they cannot be written: %d rows", excess)

    def _write_forever(self) -> None:
        while True:
            time.sleep(WRITE_SECONDS)
            self.flush_and_close()


def write(rows: Sequence[tuple[Key, Tally]]) -> None:
    """Add counts to the database, in one statement for minutes and one for hours."""
    hours: dict[tuple[datetime, str], Tally] = {}
    for (_, minute, _, outcome), tally in rows:
        hours.setdefault((minute.replace(minute=0), outcome), Tally()).add(tally)
    # In one transaction, as both statements are retried together.
    with transaction.atomic(), connection.cursor() as cursor:
        execute(cursor, WRITE, rows)
        # Hours last: all processes write the same few rows, which stay locked until the commit.
        execute(cursor, WRITE_HOURS, sorted(hours.items(), key=lambda item: item[0]))


def execute(cursor: Any, statement: str, rows: Sequence[tuple[tuple[Any, ...], Tally]]) -> None:
    values: list[Any] = []
    adapt = connection.ops.adapt_datetimefield_value
    for key, tally in rows:
        values += [adapt(each) if isinstance(each, datetime) else each for each in key]
        values += [tally.calls, round(tally.seconds * 1000), round(tally.slowest * 1000)]
    places = ", ".join(["%s"] * (len(values) // len(rows)))
    cursor.execute(statement.format(rows=", ".join([f"({places})"] * len(rows))) + ADD_TO_STORED, values)


counter = CallCounter()


def count(relayer_pk: int, method: str, outcome: str, seconds: float) -> None:
    """Count a call of a registered method or of `unknown`; the outcome is `ok` or an error's code."""
    metrics.CALLS.labels(method, outcome).inc()
    metrics.LATENCY.labels(method).observe(seconds)
    minute = timezone.now().replace(second=0, microsecond=0)
    key = (relayer_pk, minute, method[:METHOD_LENGTH], outcome[:OUTCOME_LENGTH])
    counter.add(key, Tally(1, seconds, seconds))


flush = counter.flush
