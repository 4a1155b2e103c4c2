"""What leaves a relayer's account per day, and for how many days its balance without the reserve lasts at this rate.

The health check adds each decrease of the balance to the day on which it was read: gas, and the coins that
transactions send. Increases, such as top-ups, do not count.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from django.utils import timezone

from relayers.health.balance_hours import DAY, DAYS_KEPT, Entry
from relayers.models import Relayer

# The days that the average is taken over, with the current one.
AVERAGED_DAYS = 7
# Below, the event `relayer.balance_runway` is sent: enough time for a weekend.
SHORT_DAYS = 3
# A relayer that was alerted about has recovered when it lasts this much longer: it must not come and go.
RECOVERY_DAYS = 1
MAX_DAYS = 365
# Days below which hours are shown.
HOURS_BELOW = 2


class Runway(NamedTuple):
    # In wei.
    outflow_per_day: int
    days: float

    @property
    def whole_days(self) -> int:
        return int(self.days)

    @property
    def text(self) -> str:
        """Such as "6 days", "5 hours" within the last two days, and "more than a year"."""
        if self.days >= MAX_DAYS:
            return "more than a year"
        number, unit = (int(self.days), "day") if self.days >= HOURS_BELOW else (int(self.days * 24), "hour")
        return f"{number or 'less than 1'} {unit}{'' if number <= 1 else 's'}"


def with_outflow(entries: Sequence[Entry], before: int | None, balance: int, now: datetime) -> list[list[int | str]]:
    """Return the outflow of each day, in wei as text, after a balance was read."""
    day = _day(now)
    kept = [list(entry) for entry in entries if int(entry[0]) > day - DAYS_KEPT]
    if before is None or balance >= before:
        return kept
    if kept and kept[-1][0] == day:
        kept[-1][1] = str(int(kept[-1][1]) + before - balance)
    else:
        kept.append([day, str(before - balance)])
    return kept


def runway(spendable: int, outflows: Sequence[Entry], readings: Sequence[Entry], now: datetime) -> Runway | None:
    """Return how long an amount lasts at the average rate of the last days; None if nothing has left the account.

    A relayer that was first read later is averaged over the time since, of at least a day.
    """
    start = _day(now) - (AVERAGED_DAYS - 1) * DAY
    first = max(start, int(readings[0][0])) if readings else start
    spent = sum(int(amount) for day, amount in outflows if int(day) >= start)
    seconds = max(int(now.timestamp()) - first, DAY)
    per_day = spent * DAY // seconds
    return Runway(per_day, max(spendable, 0) / per_day) if per_day else None


def current_runway(relayer: Relayer) -> Runway | None:
    """Return how long the last balance without the reserve lasts; None if it is unknown or nothing has left it."""
    health = relayer.health
    if health.balance is None:
        return None
    return runway(health.balance - relayer.reserve, health.outflow_days, health.balance_hours, timezone.now())


def is_short(found: Runway | None, *, was_short: bool) -> bool:
    """Return whether a runway is short, or was and has not recovered."""
    return found is not None and found.days < SHORT_DAYS + (RECOVERY_DAYS if was_short else 0)


def by_day(outflows: Sequence[Entry], starts: Sequence[datetime]) -> list[int]:
    amounts = {int(day): int(amount) for day, amount in outflows}
    return [amounts.get(_day(start), 0) for start in starts]


def _day(moment: datetime) -> int:
    return int(moment.timestamp()) // DAY * DAY
