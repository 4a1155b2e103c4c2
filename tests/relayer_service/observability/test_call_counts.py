"""The durations of calls, counted between bounds, and the percentiles that they imply."""

import pytest
from django.utils import timezone

from relayer_service.observability.call_counts import BOUNDS, DURATIONS, CallCount, Tally


def counts(**numbers: int) -> list[int]:
    return [numbers.get(column, 0) for column in DURATIONS]


@pytest.mark.parametrize(
    ("milliseconds", "column"),
    [
        (0, "up_to_5_ms"),
        (5, "up_to_5_ms"),
        (5.1, "up_to_10_ms"),
        (1000, "up_to_1000_ms"),
        (5000, "up_to_5000_ms"),
        (5001, "above_5000_ms"),
    ],
)
def test_a_duration_belongs_to_the_first_bound_that_it_does_not_exceed(milliseconds: float, column: str) -> None:
    assert Tally.of_call(milliseconds / 1000, timezone.now()).durations == counts(**{column: 1})
    # Each count has a column.
    assert {*DURATIONS} <= {field.name for field in CallCount._meta.get_fields()}
    assert len(DURATIONS) == len(BOUNDS) + 1


@pytest.mark.parametrize(
    ("found", "slowest", "expected"),
    [
        (counts(), 0, None),
        (counts(up_to_5_ms=100), 5, 5),
        # None took longer than the slowest.
        (counts(up_to_5_ms=100), 1, 1),
        (counts(up_to_100_ms=100), 100, 98),
        # The last 5 of 100 do not matter.
        (counts(up_to_50_ms=95, above_5000_ms=5), 60_000, 50),
        (counts(up_to_50_ms=94, above_5000_ms=6), 11_000, 6000),
        (counts(up_to_10_ms=90, up_to_500_ms=10), 500, 375),
    ],
)
def test_the_percentile_is_interpolated(found: list[int], slowest: int, expected: int | None) -> None:
    assert Tally(slowest=slowest, durations=found).percentile() == expected
