"""The format of dates on all pages; `relayer_service.formats` sets the same for fields that Django renders."""

from datetime import datetime, timedelta

from django.contrib.humanize.templatetags.humanize import naturaltime
from django.utils import timezone
from django.utils.html import format_html
from django.utils.timesince import timeuntil


def to_the_minute(moment: datetime | None, unset: str = "-") -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC" if moment else unset


def exact(moment: datetime | None, unset: str = "-") -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment else unset


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
