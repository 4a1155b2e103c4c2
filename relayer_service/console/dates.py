"""The format of dates on all pages; `relayer_service.formats` sets the same for fields that Django renders."""

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from django.contrib.humanize.templatetags.humanize import naturaltime
from django.utils import timezone
from django.utils.functional import lazy
from django.utils.html import format_html
from django.utils.timesince import timeuntil


def time_zone_of(user: Any) -> ZoneInfo | None:
    """Return the time zone that a user has chosen; None if there is none."""
    preference = getattr(user, "preference", None)
    return zone_or_utc(preference.time_zone) if preference else None


def zone_or_utc(name: str) -> ZoneInfo:
    """Return a time zone, or UTC if the system does not know it any more."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return ZoneInfo("UTC")


def zone_names() -> list[str]:
    """Return the time zones to choose from, without that of the machine."""
    return sorted(available_timezones() - {"localtime"})


# The help text of fields for times, which names the time zone of the page.
IN_TIME_ZONE: Any = lazy(lambda: f"In the time zone {timezone.get_current_timezone_name()}.", str)()


def to_the_minute(moment: datetime | None, unset: str = "-") -> str:
    return f"{timezone.localtime(moment):%Y-%m-%d %H:%M %Z}" if moment else unset


def exact(moment: datetime | None, unset: str = "-") -> str:
    return f"{timezone.localtime(moment):%Y-%m-%d %H:%M:%S %Z}" if moment else unset


def ago(moment: datetime | None) -> str:
    """Return the time since a moment, in the largest unit only."""
    if moment is None:
        return "never"
    largest, _, smaller = str(naturaltime(moment)).partition(", ")
    return f"{largest} ago" if smaller else largest


def ago_titled(moment: datetime | None) -> str:
    """Return the time since a moment, with the moment as the tooltip."""
    if moment is None:
        return "never"
    return format_html('<time datetime="{}" title="{}">{}</time>', moment.isoformat(), exact(moment), ago(moment))


def until(moment: datetime) -> str:
    """Return the time until a moment, in the largest unit only."""
    now = timezone.now()
    if moment <= now:
        return "now"
    is_soon = moment < now + timedelta(minutes=1)
    return "in less than a minute" if is_soon else f"in {timeuntil(moment, now, depth=1)}"
