"""What leaves a relayer's account per day, how long its balance lasts, and the event about it."""

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from django.utils import timezone

from notifications.models import Delivery
from relayers.health.balance_hours import DAY, HOUR
from relayers.health.checking import AccountReading, lease_length, write
from relayers.health.runway import Runway, is_short, runway, with_outflow
from relayers.models import Relayer, RelayerHealth
from tests.notifications.clock import Clock
from tests.relayers import factories

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
MIDNIGHT = int(datetime(2026, 11, 15, tzinfo=UTC).timestamp())


def day(days_ago: int, amount: str) -> list[Any]:
    return [MIDNIGHT - days_ago * DAY, amount]


@pytest.mark.parametrize(
    ("entries", "before", "balance", "after"),
    [
        ([], None, 5, []),
        ([], 5, 5, []),
        # A top-up.
        ([day(1, "3")], 5, 9, [day(1, "3")]),
        ([day(1, "3")], 9, 5, [day(1, "3"), day(0, "4")]),
        ([day(0, "3")], 2**128, 1, [day(0, str(2**128 + 2))]),
        ([day(31, "1"), day(30, "2")], 2, 1, [day(30, "2"), day(0, "1")]),
    ],
)
def test_a_decrease_is_added_to_its_day(entries: Any, before: int | None, balance: int, after: Any) -> None:
    assert with_outflow(entries, before, balance, NOW) == after


@pytest.mark.parametrize(
    ("outflows", "first_reading", "found"),
    [
        ([], 30 * DAY, None),
        # Today's 12 hours and the six days before.
        ([day(6, "65"), day(0, "65")], 30 * DAY, Runway(20, 5.0)),
        ([day(7, "1000"), day(6, "130")], 30 * DAY, Runway(20, 5.0)),
        # First read two days ago, and an hour ago, which counts as a day.
        ([day(1, "40")], 2 * DAY, Runway(20, 5.0)),
        ([day(0, "20")], HOUR, Runway(20, 5.0)),
    ],
)
def test_the_average_is_over_the_last_7_days_or_since_the_first_reading(
    outflows: Any, first_reading: int, found: Any
) -> None:
    readings: list[Any] = [[int(NOW.timestamp()) - first_reading, "1000"]]
    assert runway(100, outflows, readings, NOW) == found


@pytest.mark.parametrize(
    ("days", "was_short", "expected"),
    [(None, True, False), (2.9, False, True), (3.0, False, False), (3.9, True, True), (4.0, True, False)],
)
def test_a_runway_is_short_until_it_is_a_day_longer(days: float | None, was_short: bool, expected: bool) -> None:
    found = None if days is None else Runway(1, days)
    assert is_short(found, was_short=was_short) is expected


def test_how_a_runway_reads() -> None:
    texts = {400: "more than a year", 6.9: "6 days", 2: "2 days", 1.99: "47 hours", 0.05: "1 hour"}
    texts[0.01] = "less than 1 hour"
    assert {days: Runway(1, days).text for days in texts} == texts


def claimed() -> RelayerHealth:
    RelayerHealth.objects.update(due_at=timezone.now(), leased_until=None)
    row: RelayerHealth
    (row,) = RelayerHealth.objects.select_related("relayer").claim(1, lease_length())
    return row


def check(*balances: int | None) -> None:
    for balance in balances:
        write([(claimed(), AccountReading(7, balance))])


def sent() -> list[Any]:
    bodies = (orjson.loads(body) for body in Delivery.objects.order_by("pk").values_list("body", flat=True))
    return [(body["type"], body["data"]) for body in bodies]


def is_marked() -> bool:
    return Relayer.objects.get().health.runway_is_short


@pytest.mark.django_db
def test_a_short_runway_is_reported_once_until_it_has_recovered(clock: Clock) -> None:
    factories.relayer(notification=factories.notification())
    # 100 a day for a balance of 300 is enough; one for 299 is not.
    check(400, 300)
    assert sent() == []
    check(299, None, 290, 250)
    data = {"relayer_id": "relayer-1", "name": "Relayer 1", "network": "sepolia", "network_type": "evm"}
    amounts = {"balance": "299", "outflow_per_day": "101", "runway_days": 2, "threshold_days": 3}
    assert sent() == [("relayer.balance_runway", data | amounts)]
    assert is_marked()
    # 150 a day by now: a top-up to 599 is not enough, one to 600 is.
    check(599)
    assert is_marked()
    check(600)
    assert not is_marked()
    # A first worker was slow: its lease has ended, and a second one has claimed the row.
    first, second = claimed(), claimed()
    write([(second, AccountReading(7, 1))])
    write([(first, AccountReading(7, 1))])
    assert len(sent()) == 2
