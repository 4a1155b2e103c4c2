"""The one form of dates on all pages: to the minute or to the second, with UTC; and how long ago that was.

Fields that Django itself shows have the same form from `relayer_service.formats`.
"""

from datetime import datetime

from django.contrib.humanize.templatetags.humanize import naturaltime
from django.utils.html import format_html


def to_the_minute(moment: datetime | None, unset: str = "-") -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC" if moment else unset


def exact(moment: datetime | None, unset: str = "-") -> str:
    """Return a moment to the second, where several may fall into a minute."""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment else unset


def ago(moment: datetime | None) -> str:
    """Return how long ago that was, in the largest unit only."""
    if moment is None:
        return "never"
    largest, _, smaller = str(naturaltime(moment)).partition(", ")
    return f"{largest} ago" if smaller else largest


def ago_titled(moment: datetime | None) -> str:
    """Return how long ago that was, with the moment itself as the title."""
    if moment is None:
        return "never"
    return format_html('<time datetime="{}" title="{}">{}</time>', moment.isoformat(), exact(moment), ago(moment))
