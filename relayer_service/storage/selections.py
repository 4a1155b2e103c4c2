"""Selections: the primary keys of many rows in a compact text.

The text lists the runs of consecutive keys, each as the distance from the one before and, if longer than one key, its
length: the keys 5, 6, 7 and 9 are `5x3,2`.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Self

from django.db.models import Q, QuerySet

MAX_SELECTED = 1_000_000
# The largest key of a database.
MAX_KEY = 2**63 - 1
RUN = re.compile(r"(\d{1,18})(?:x(\d{1,7}))?")


class SelectionError(ValueError):
    """An invalid selection."""


@dataclass(frozen=True)
class Selection:
    """Keys of rows, in ascending order."""

    runs: tuple[range, ...] = ()

    @classmethod
    def from_queryset(cls, rows: QuerySet[Any], limit: int | None = None) -> Self:
        """Return the selection of all rows, or of the first `limit` rows in their order."""
        ordered = rows if limit else rows.order_by("pk")
        return cls.from_keys(ordered.values_list("pk", flat=True)[: limit or MAX_SELECTED])

    @classmethod
    def from_keys(cls, keys: Iterable[int]) -> Self:
        runs: list[range] = []
        for key in sorted(set(keys)):
            if runs and key == runs[-1].stop:
                runs[-1] = range(runs[-1].start, key + 1)
            else:
                runs.append(range(key, key + 1))
        return cls(tuple(runs))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the selection of a text, which is untrusted."""
        runs, last, total = [], 0, 0
        for part in text.split(",") if text else []:
            found = RUN.fullmatch(part)
            distance, length = (int(found[1]), int(found[2] or 1)) if found else (0, 0)
            start, total = last + distance, total + length
            last = start + length - 1
            if not distance or not length or last > MAX_KEY:
                raise SelectionError("Invalid selection of rows.")
            if total > MAX_SELECTED:
                raise SelectionError(f"Select at most {MAX_SELECTED:,} rows.")
            runs.append(range(start, last + 1))
        return cls(tuple(runs))

    def __str__(self) -> str:
        parts, last = [], 0
        for run in self.runs:
            parts.append(f"{run.start - last}x{len(run)}" if len(run) > 1 else str(run.start - last))
            last = run.stop - 1
        return ",".join(parts)

    def __len__(self) -> int:
        return sum(map(len, self.runs))

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self.runs)

    def first(self, count: int, after: int = 0) -> list[int]:
        rest = (run if run.start > after else range(after + 1, run.stop) for run in self.runs if run.stop > after + 1)
        return list(islice(chain.from_iterable(rest), count))

    def between(self, first: int, last: int) -> set[int]:
        """Return the keys from `first` to `last`."""
        return set(chain.from_iterable(range(max(run.start, first), min(run.stop, last + 1)) for run in self.runs))

    def conditions(self, size: int) -> Iterator[Q]:
        """Yield conditions that each select some of the keys: a long run, or at most `size` others."""
        for run in self.runs:
            if len(run) >= size:
                yield Q(pk__range=(run.start, run.stop - 1))
        others = type(self)(tuple(run for run in self.runs if len(run) < size))
        yield from (Q(pk__in=batch) for batch in others.batches(size))

    def batches(self, size: int) -> Iterator[list[int]]:
        keys = iter(self)
        while batch := list(islice(keys, size)):
            yield batch
