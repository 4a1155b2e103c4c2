"""The balance by hour that the health check keeps."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from relayers.health.balance_hours import DAY, HOUR, by_step, with_reading
from relayers.health.checking import AccountReading, lease_length, write
from relayers.models import Relayer, RelayerHealth
from tests.notifications.clock import NOON, Clock
from tests.relayers import factories

NOW = datetime(2026, 11, 15, 3, 20, tzinfo=UTC)
START = int(datetime(2026, 11, 15, 3, tzinfo=UTC).timestamp())


def entry(hours_ago: int, balance: str) -> list[Any]:
    return [START - hours_ago * HOUR, balance]


@pytest.mark.parametrize(
    ("entries", "balance", "after"),
    [
        ([], "5", [entry(0, "5")]),
        # The last one of an hour is kept.
        ([entry(0, "7")], "5", [entry(0, "5")]),
        ([entry(1, "7")], "5", [entry(1, "7"), entry(0, "5")]),
        # Back at what it was in the hour before.
        ([entry(1, "7"), entry(0, "5")], "7", [entry(1, "7")]),
        # Older than a day: the last of each six hours, which start at midnight in UTC.
        (
            [entry(33, "1"), entry(32, "2"), entry(27, "3"), entry(24, "4"), entry(23, "5"), entry(22, "6")],
            "7",
            [entry(32, "2"), entry(24, "4"), entry(23, "5"), entry(22, "6"), entry(0, "7")],
        ),
        # Older than 8 days: the last of each day. Of all before 31 days, the newest.
        (
            [entry(35 * 24, "1"), entry(34 * 24, "2"), entry(10 * 24 + 1, "3"), entry(10 * 24, "4"), entry(9, "5")],
            "6",
            [entry(34 * 24, "2"), entry(10 * 24, "4"), entry(9, "5"), entry(0, "6")],
        ),
    ],
)
def test_a_reading_is_kept_with_its_hour(entries: list[Any], balance: str, after: list[Any]) -> None:
    assert with_reading(entries, balance, NOW) == after


def test_a_step_has_the_last_value_until_it_and_none_while_it_was_not_set() -> None:
    hours = [datetime.fromtimestamp(START, UTC) - timedelta(hours=ago) for ago in (4, 3, 2, 1, 0)]
    assert by_step([entry(3, str(2**128)), entry(1, "5")], hours) == [None, 2**128, 2**128, 5, 5]
    midnight = datetime(2026, 11, 15, tzinfo=UTC)
    entries = [entry(26, "1"), entry(5, "2"), entry(4, "3"), entry(1, "")]
    assert by_step(entries, [midnight - timedelta(days=ago) for ago in (2, 1, 0)]) == [None, 3, None]


def test_an_account_that_changes_every_hour_keeps_a_bounded_history() -> None:
    entries: list[Any] = []
    for hour in range(60 * 24):
        entries = with_reading(entries, str(hour), NOW + timedelta(hours=hour))
    assert len(entries) == 24 + 7 * 4 + 1 + 23 + 1
    assert entries[-1] == [START + (60 * 24 - 1) * HOUR, str(60 * 24 - 1)]
    assert entries[0][0] >= entries[-1][0] - 32 * DAY


@pytest.mark.django_db
def test_a_check_keeps_balance_and_minimum_of_the_hour_until_the_account_is_another(clock: Clock) -> None:
    relayer = factories.relayer()
    noon = int(NOON.timestamp())
    for seconds, minimum, balance in [
        (0, {"min_balance": 2**128}, 9),
        (0, {"min_balance": 2**128}, 5),
        (HOUR, {"min_balance": 2**128}, None),
        (HOUR, {"min_balance": 3}, 5),
        (HOUR, {}, 4),
    ]:
        clock.forward(seconds)
        Relayer.objects.update(policies=minimum)
        RelayerHealth.objects.update(due_at=timezone.now(), leased_until=None)
        (claimed,) = RelayerHealth.objects.select_related("relayer").claim(1, lease_length())
        write([(claimed, AccountReading(7, balance))])
    relayer.refresh_from_db()
    assert relayer.health.balance_hours == [[noon, "5"], [noon + 3 * HOUR, "4"]]
    assert relayer.health.minimum_hours == [[noon, str(2**128)], [noon + 2 * HOUR, "3"], [noon + 3 * HOUR, ""]]
    assert [amount for _, amount in relayer.health.outflow_days] == ["5"]
    relayer.health.clear_readings()
    assert relayer.health.balance_hours == []
