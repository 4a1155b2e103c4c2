"""Which hours count on a limit."""

from datetime import UTC, datetime

import pytest

from transactions.spending.windows import hour_of, used, with_amount

NOON = hour_of(datetime(2026, 11, 16, 12, 0, tzinfo=UTC))


def test_hours_are_those_of_unix_time() -> None:
    moments = [datetime(1970, 1, 2, 3, 0, tzinfo=UTC), datetime(1970, 1, 2, 3, 59, 59, 999999, tzinfo=UTC)]
    assert [hour_of(moment) for moment in moments] == [27, 27]


@pytest.mark.parametrize(("age", "counts"), [(0, True), (23, True), (24, True), (25, False)])
def test_an_hour_counts_until_all_of_it_is_older_than_a_day(age: int, counts: bool) -> None:
    """At the end of the hour NOON + 24, the last second of NOON is just over 24 hours ago: it must still count."""
    assert used({str(NOON - age): "7"}, NOON) == (7 if counts else 0)


def test_amounts_of_256_bits_are_added_exactly() -> None:
    huge = 2**256 - 1
    hours = with_amount({str(NOON): str(huge)}, NOON, NOON, huge)
    assert hours == {str(NOON): str(2 * huge)}
    assert used(hours, NOON) == 2 * huge


def test_hours_that_do_not_count_any_more_are_dropped_on_write() -> None:
    hours = {str(NOON - 25): "1", str(NOON - 24): "2", str(NOON - 1): "3"}
    assert with_amount(hours, NOON, NOON, 4) == {str(NOON - 24): "2", str(NOON - 1): "3", str(NOON): "4"}


def test_what_is_released_too_late_changes_nothing() -> None:
    assert with_amount({str(NOON): "1"}, NOON, NOON - 25, -5) == {str(NOON): "1"}


def test_an_hour_without_an_amount_is_dropped() -> None:
    assert with_amount({str(NOON): "5"}, NOON, NOON, -5) == {}
