"""How long calls take: counts by duration, and the percentiles that they imply."""

from bisect import bisect_left
from collections.abc import Sequence

from django.db import models

# Upper bounds of the counts, in milliseconds; the last count is of calls above them all.
BOUNDS = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000)
# The column of each count.
COLUMNS = [*(f"up_to_{bound}_ms" for bound in BOUNDS), f"above_{BOUNDS[-1]}_ms"]


class DurationCounts(models.Model):
    """Calls by duration; null in rows of earlier releases."""

    up_to_5_ms = models.PositiveIntegerField(null=True, editable=False)
    up_to_10_ms = models.PositiveIntegerField(null=True, editable=False)
    up_to_25_ms = models.PositiveIntegerField(null=True, editable=False)
    up_to_50_ms = models.PositiveIntegerField(null=True, editable=False)
    up_to_100_ms = models.PositiveIntegerField(null=True, editable=False)
    up_to_250_ms = models.PositiveIntegerField(null=True, editable=False)
    up_to_500_ms = models.PositiveIntegerField(null=True, editable=False)
    up_to_1000_ms = models.PositiveIntegerField(null=True, editable=False)
    up_to_2500_ms = models.PositiveIntegerField(null=True, editable=False)
    up_to_5000_ms = models.PositiveIntegerField(null=True, editable=False)
    above_5000_ms = models.PositiveIntegerField(null=True, editable=False)

    class Meta:
        abstract = True


def bucket(milliseconds: float) -> int:
    """Return the number of the count that a duration belongs to."""
    return bisect_left(BOUNDS, milliseconds)


def percentile(share: float, counts: Sequence[int], slowest: int) -> int | None:
    """Return the duration in milliseconds that this share of calls did not exceed, None without counts.

    Durations are taken as spread evenly between the bounds of a count, and none is above the slowest.
    """
    rank = share * sum(counts)
    lower, below = 0, 0
    for upper, count in zip([*BOUNDS, max(slowest, BOUNDS[-1])], counts, strict=True):
        if count and below + count >= rank:
            highest = max(lower, min(upper, slowest))
            return round(lower + (highest - lower) * (rank - below) / count)
        lower, below = upper, below + count
    return None


def p95(counts: Sequence[int], slowest: int) -> int | None:
    return percentile(0.95, counts, slowest)
