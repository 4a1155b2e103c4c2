"""The balance by hour that the health check keeps."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from relayers.balance_hours import HOUR, by_hour, with_reading
from relayers.health import AccountReading, lease_length, write
from relayers.models import Relayer
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
        # The newest entry before the last day has the balance at its start.
        ([entry(26, "1"), entry(25, "2"), entry(3, "3")], "5", [entry(25, "2"), entry(3, "3"), entry(0, "5")]),
    ],
)
def test_a_reading_is_kept_with_its_hour(entries: list[Any], balance: str, after: list[Any]) -> None:
    assert with_reading(entries, balance, NOW) == after


def test_hours_without_an_entry_have_the_balance_of_the_one_before() -> None:
    entries = [entry(3, str(2**128)), entry(1, "5")]
    assert by_hour(entries, NOW - timedelta(hours=4), 5) == [None, 2**128, 2**128, 5, 5]


@pytest.mark.django_db
def test_a_check_keeps_the_balance_of_the_hour_and_one_that_reads_none_does_not() -> None:
    relayer = factories.relayer()
    hour = int(timezone.now().timestamp()) // HOUR * HOUR
    for balance in (9, 5, None):
        Relayer.objects.update(due_at=timezone.now(), leased_until=None)
        (claimed,) = Relayer.objects.all().claim(1, lease_length())
        write([(claimed, AccountReading(7, balance))])
        relayer.refresh_from_db()
    assert relayer.balance_hours in ([[hour, "5"]], [[hour, "9"], [hour + HOUR, "5"]])


@pytest.mark.django_db
def test_the_balances_of_another_account_are_forgotten() -> None:
    relayer = factories.relayer(balance_hours=[entry(0, "5")])
    relayer.save(update_fields=relayer.clear_readings())
    assert Relayer.objects.get().balance_hours == []
