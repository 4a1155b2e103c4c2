"""Calls to nodes and through relayers, counted by period and outcome with their durations, in one table.

Processes count in memory (`background/counts.py`) and add to the same rows; pages sum the rows up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Self

from django.db import connection, models

from relayer_service.database.clock import DatabaseNow

# What is counted. The rows of all relayers sort last: all processes write the same few, and lock them.
NODE, RELAYER, ALL_RELAYERS = "node", "relayer", "relayers"
OK = "ok"
# Upper bounds of the counts by duration, in milliseconds; the last count is of calls above them all.
BOUNDS = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000)
# The column of each count.
DURATIONS = [*(f"up_to_{bound}_ms" for bound in BOUNDS), f"above_{BOUNDS[-1]}_ms"]
# Rows deleted per statement: a long one would block the writers.
BATCH_SIZE = 5_000


class CallCount(models.Model):
    """The calls to a node in ten minutes, or through one relayer or all of them in an hour, with one outcome."""

    kind = models.CharField(max_length=16)
    subject = models.CharField(
        max_length=64, help_text="The keyed hash of a node's URL, or the primary key of a relayer."
    )
    start = models.DateTimeField()
    method = models.CharField(max_length=64, help_text="Of JSON-RPC, through one relayer.")
    outcome = models.CharField(max_length=32, help_text="`ok`, the code of an error, or `failed` of a node.")
    calls = models.PositiveBigIntegerField(default=0)
    slowest_milliseconds = models.PositiveBigIntegerField(default=0)
    last_at = models.DateTimeField(null=True, help_text="Of the last call.")
    head = models.PositiveBigIntegerField(null=True, help_text="The last head block of a node.")
    head_at = models.DateTimeField(null=True, help_text="The time of that block, or else when it was first seen.")
    last_fault = models.CharField(max_length=200, help_text="Of a node.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["kind", "subject", "start", "method", "outcome"], name="call_count_once")
        ]
        indexes = [models.Index("kind", "start", name="call_count_by_age")]
        # Shown only in charts and on the page of nodes.
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.subject} {self.outcome} at {self.start:%Y-%m-%d %H:%M}"


for _column in DURATIONS:
    CallCount.add_to_class(_column, models.PositiveIntegerField(default=0))


class Key(NamedTuple):
    """What a row counts."""

    kind: str
    start: datetime
    subject: str = ""
    method: str = ""
    outcome: str = OK


@dataclass(slots=True)
class Tally:
    """The numbers of a row, or of several."""

    calls: int = 0
    slowest: int = 0
    last_at: datetime | None = None
    head: int | None = None
    head_at: datetime | None = None
    last_fault: str = ""
    # Calls by duration, as in `DURATIONS`.
    durations: list[int] = field(default_factory=lambda: [0] * len(DURATIONS))

    @classmethod
    def of_call(cls, seconds: float, at: datetime) -> Self:
        milliseconds = seconds * 1000
        tally = cls(1, round(milliseconds), at)
        tally.durations[bisect_left(BOUNDS, milliseconds)] = 1
        return tally

    @classmethod
    def total(cls, tallies: Iterable[Tally]) -> Self:
        """Return the sum of tallies, the oldest first."""
        found = cls()
        for tally in tallies:
            found.add(tally)
        return found

    def add(self, newer: Tally) -> None:
        self.calls += newer.calls
        self.slowest = max(self.slowest, newer.slowest)
        self.last_at = newer.last_at or self.last_at
        if newer.head is not None and newer.head != self.head:
            # The time of the same block stays: when it was first seen.
            self.head, self.head_at = newer.head, newer.head_at
        self.last_fault = newer.last_fault or self.last_fault
        self.durations = [own + more for own, more in zip(self.durations, newer.durations, strict=True)]

    def percentile(self, share: float = 0.95) -> int | None:
        """Return the duration in milliseconds that this share of calls did not exceed, None without calls.

        Durations are taken as spread evenly between the bounds of a count, and none is above the slowest.
        """
        rank = share * sum(self.durations)
        lower, below = 0, 0
        for upper, count in zip([*BOUNDS, max(self.slowest, BOUNDS[-1])], self.durations, strict=True):
            if count and below + count >= rank:
                highest = max(lower, min(upper, self.slowest))
                return round(lower + (highest - lower) * (rank - below) / count)
            lower, below = upper, below + count
        return None

    def latency(self, share: float = 0.95) -> str:
        milliseconds = self.percentile(share)
        return "-" if milliseconds is None else f"{milliseconds:,} ms"


Counted = tuple[Key, Tally]

ADDED = ["calls", *DURATIONS]
# The last write wins: a local chain that starts over has a lower head block.
REPLACED = ["last_at", "head", "head_at", "last_fault"]
# In the order of a tally.
COLUMNS = [*Key._fields, "calls", "slowest_milliseconds", *REPLACED, *DURATIONS]
WRITE = """
INSERT INTO relayer_service_callcount AS stored ({columns}) VALUES {rows}
ON CONFLICT (kind, subject, start, method, outcome) DO UPDATE SET
  {added},
  {replaced},
  slowest_milliseconds = CASE
    WHEN excluded.slowest_milliseconds > stored.slowest_milliseconds THEN excluded.slowest_milliseconds
    ELSE stored.slowest_milliseconds
  END
"""
PARTS = {
    "columns": ", ".join(COLUMNS),
    "added": ", ".join(f"{name} = stored.{name} + excluded.{name}" for name in ADDED),
    "replaced": ", ".join(f"{name} = COALESCE(excluded.{name}, stored.{name})" for name in REPLACED),
}


def write(rows: Iterable[Counted]) -> None:
    """Add counts to those in the database, in one statement."""
    values: list[Any] = []
    # Processes add to the same rows: the same order prevents deadlocks.
    for key, tally in sorted(rows, key=lambda row: row[0]):
        last = (tally.last_at, tally.head, tally.head_at, tally.last_fault)
        row = (*key, tally.calls, tally.slowest, *last, *tally.durations)
        values += [
            connection.ops.adapt_datetimefield_value(each) if isinstance(each, datetime) else each for each in row
        ]
    places = f"({', '.join(['%s'] * len(COLUMNS))})"
    count = len(values) // len(COLUMNS)
    with connection.cursor() as cursor:
        cursor.execute(WRITE.format(**PARTS, rows=", ".join([places] * count)), values)


def read(kind: str, since: datetime, **subjects: Any) -> Iterator[Counted]:
    """Yield the counts of a kind from a time on, the oldest first."""
    rows = CallCount.objects.filter(kind=kind, start__gte=since, **subjects).order_by("start", "method", "outcome")
    key, durations = len(Key._fields), len(COLUMNS) - len(DURATIONS)
    for row in rows.values_list(*COLUMNS):
        numbers: list[Any] = [*row[key:durations], [*row[durations:]]]
        yield Key(*row[:key]), Tally(*numbers)


def prune(kinds: Sequence[str], kept: timedelta) -> None:
    old = CallCount.objects.filter(kind__in=kinds, start__lt=DatabaseNow() - kept)
    deleted = BATCH_SIZE
    while deleted == BATCH_SIZE:
        deleted, _ = CallCount.objects.filter(pk__in=old.values("pk")[:BATCH_SIZE]).delete()
