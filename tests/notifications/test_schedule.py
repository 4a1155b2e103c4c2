"""The retry schedule, and what a Retry-After header changes about it."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from unittest.mock import patch

from hypothesis import example, given
from hypothesis import strategies as st
from pytest_django import Settings

from notifications.delivery import posting
from notifications.delivery.posting import MAX_RETRY_AFTER, next_attempt
from relayer_service.net.outgoing import parse_retry_after

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SCHEDULE = [0, 5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400]
DAY = 86_400


def wait(attempts_made: int, jitter: float = 0, retry_after: timedelta | None = None) -> float | None:
    with patch.object(posting, "JITTER", jitter):
        moment = next_attempt(SCHEDULE, attempts_made, NOW, retry_after)
    return None if moment is None else (moment - NOW).total_seconds()


def test_each_wait_follows_the_schedule_and_none_follows_the_last_attempt(settings: Settings) -> None:
    assert (settings.WEBHOOK_SCHEDULE, posting.JITTER) == (SCHEDULE, 0.1)
    waits = [wait(attempts_made) for attempts_made in range(1, 12)]
    assert waits == [5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400, None, None]
    assert next_attempt([0], 1, NOW, timedelta(hours=1)) is None


@given(st.integers(1, 9), st.floats(0, 1), st.randoms(use_true_random=False))
def test_the_jitter_keeps_to_its_share_on_both_sides(attempts_made: int, jitter: float, source: random.Random) -> None:
    random.seed(source.random())
    waited = wait(attempts_made, jitter)
    assert waited is not None
    planned = SCHEDULE[attempts_made]
    assert planned * (1 - jitter) - 1e-3 <= waited <= planned * (1 + jitter) + 1e-3


def test_targets_that_failed_together_are_not_tried_together() -> None:
    waits = [wait(2, posting.JITTER) for _ in range(200)]
    assert len(set(waits)) > 190
    assert min(filter(None, waits)) < 285
    assert max(filter(None, waits)) > 315


def test_a_target_may_ask_for_a_longer_wait_up_to_a_day_and_for_no_shorter_one() -> None:
    waits = {None: 5, timedelta(0): 5, timedelta(seconds=3): 5, timedelta(seconds=60): 60}
    waits |= {timedelta(days=1): DAY, timedelta(days=2): DAY, timedelta.max: DAY}
    assert {asked: wait(1, retry_after=asked) for asked in waits} == waits
    assert wait(9, retry_after=timedelta(seconds=1)) == DAY


def test_both_forms_of_retry_after_are_read() -> None:
    seconds = {
        "0": 0,
        "120": 120,
        "007": 7,
        "9999999999": 9_999_999_999,
        "Thu, 01 Jan 2026 12:01:00 GMT": 60,
        "Thu, 01 Jan 2026 14:01:00 +0200": 60,
        "Thursday, 01-Jan-26 12:01:00 GMT": 60,
        "Thu Jan  1 12:01:00 2026": 60,
        "Thu, 01 Jan 2026 12:01:00": 60,
        "Thu, 01 Jan 2026 12:01:00 -0000": 60,
        "Thu, 01 Jan 2026 11:59:59 GMT": 0,
        "Mon, 01 Jan 0001 00:00:00 GMT": 0,
        "Mon, 01 Jan 0001 00:00:00 +2359": 0,
    }
    assert {text: parse_retry_after(text, NOW) for text in seconds} == {
        text: timedelta(seconds=number) for text, number in seconds.items()
    }


def test_what_is_not_retry_after_is_as_good_as_none() -> None:
    values = [None, "", " ", "-1", "+1", "1.5", "1e3", "soon", "٣", "²", "2026-01-01T12:01:00Z"]
    values += ["Thu, 32 Jan 2026 12:01:00 GMT", "Thu, 01 Jan 2026 25:00:00 GMT", "Thu, 01 Jan 2026 12:01:00 +9999"]
    values += ["Fri, 31 Dec 10000 23:59:59 GMT", "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"]
    assert [value for value in values if parse_retry_after(value, NOW) is not None] == []


DAYS = ("Thu", "Thu,", "01", "1", "Jan", "2026", "26", "0001", "9999", "10000")
TIMES = ("12:00:00", "00:00", "25:61:61", "GMT", "UTC", "Z", "+9999", "-2359", "-0000")
WORDS = st.sampled_from([*DAYS, *TIMES, ",", ":", "-", "+", ".", "1.5", "é"])


@example("9" * 5000)
@example("Fri, 31 Dec 9999 23:59:59 GMT")
@example("Fri, 31 Dec 9999 23:59:59 -2359")
@example("Mon, 01 Jan 0001 00:00:00 +2359")
@given(st.text() | st.lists(WORDS, max_size=8).map(" ".join) | st.lists(WORDS, max_size=8).map("".join))
def test_no_header_leads_to_more_than_a_day_or_to_the_past(value: str) -> None:
    waited = wait(1, retry_after=parse_retry_after(value, NOW))
    assert waited is not None
    assert 5 <= waited <= MAX_RETRY_AFTER.total_seconds()
