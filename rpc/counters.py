"""Counting JSON-RPC calls by relayer, minute, method and outcome, and over all relayers by hour and outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from relayer_service.background.counts import PendingCounts
from relayer_service.storage import latencies
from rpc import metrics
from rpc.models import CallCount

METHOD_LENGTH = CallCount._meta.get_field("method").max_length
OUTCOME_LENGTH = CallCount._meta.get_field("outcome").max_length

COUNTED = ", ".join(["calls", "milliseconds", "slowest_milliseconds", *latencies.COLUMNS])
ADDED_DURATIONS = "".join(f",\n  {name} = COALESCE(stored.{name}, 0) + excluded.{name}" for name in latencies.COLUMNS)
ADD_TO_STORED = f"""DO UPDATE SET
  calls = stored.calls + excluded.calls,
  milliseconds = stored.milliseconds + excluded.milliseconds,
  slowest_milliseconds = CASE
    WHEN excluded.slowest_milliseconds > stored.slowest_milliseconds THEN excluded.slowest_milliseconds
    ELSE stored.slowest_milliseconds
  END{ADDED_DURATIONS}
"""
# Processes add to the same rows: the same order prevents deadlocks. A relayer may have been deleted.
WRITE = """
WITH gathered (relayer_id, minute, method, outcome, {counted}) AS (VALUES {rows})
INSERT INTO rpc_callcount AS stored (relayer_id, minute, method, outcome, {counted})
SELECT * FROM gathered WHERE relayer_id IN (SELECT sequence FROM relayers_relayer)
ORDER BY relayer_id, minute, method, outcome
ON CONFLICT (relayer_id, minute, method, outcome)
"""

WRITE_HOURS = """
INSERT INTO rpc_callhour AS stored (hour, outcome, {counted}) VALUES {rows}
ON CONFLICT (hour, outcome)
"""

Key = tuple[int, datetime, str, str]


@dataclass(slots=True)
class Tally:
    calls: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    # Calls by duration, as in `latencies.COLUMNS`.
    durations: list[int] = field(default_factory=lambda: [0] * len(latencies.COLUMNS))

    @classmethod
    def of_call(cls, seconds: float) -> Tally:
        tally = cls(1, seconds, seconds)
        tally.durations[latencies.bucket(seconds * 1000)] = 1
        return tally

    def add(self, other: Tally) -> None:
        self.calls += other.calls
        self.seconds += other.seconds
        self.slowest = max(self.slowest, other.slowest)
        self.durations = [own + more for own, more in zip(self.durations, other.durations, strict=True)]


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
        values += [tally.calls, round(tally.seconds * 1000), round(tally.slowest * 1000), *tally.durations]
    places = ", ".join(["%s"] * (len(values) // len(rows)))
    rows_text = ", ".join([f"({places})"] * len(rows))
    cursor.execute(statement.format(rows=rows_text, counted=COUNTED) + ADD_TO_STORED, values)


counter: PendingCounts[Key, Tally] = PendingCounts("call counts", write)


def count(relayer_pk: int, method: str, outcome: str, seconds: float) -> None:
    """Count a call of a registered method or of `unknown`; the outcome is `ok` or an error's code."""
    metrics.CALLS.labels(method, outcome).inc()
    metrics.LATENCY.labels(method).observe(seconds)
    minute = timezone.now().replace(second=0, microsecond=0)
    key = (relayer_pk, minute, method[:METHOD_LENGTH], outcome[:OUTCOME_LENGTH])
    counter.add(key, Tally.of_call(seconds))


flush = counter.flush
