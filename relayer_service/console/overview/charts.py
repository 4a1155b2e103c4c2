"""Charts of the last 24 hours, 7 days or 30 days, as chosen with `?range=` on the page."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.http import HttpRequest
from django.utils import timezone

PARAMETER = "range"
GREY = "#9ca3af"
POINT_RADIUS = 3
# Small amounts, too, without an exponent.
AMOUNT_TICKS = {"color": GREY, "format": {"notation": "standard", "maximumSignificantDigits": 4}}


@dataclass(frozen=True)
class ChartRange:
    """How far back a chart goes: `count` steps, each labelled with its start."""

    key: str
    title: str
    count: int
    step: timedelta
    label: str

    @property
    def step_text(self) -> str:
        return {1: "hour", 6: "6 hours", 24: "day"}[self.step // timedelta(hours=1)]


LAST_DAY = ChartRange("24h", "24 hours", 24, timedelta(hours=1), "%H:%M")
RANGES = {
    each.key: each
    for each in (
        LAST_DAY,
        ChartRange("7d", "7 days", 28, timedelta(hours=6), "%a %H:%M"),
        ChartRange("30d", "30 days", 30, timedelta(days=1), "%d %b"),
    )
}
HOURS = LAST_DAY.count


class Period:
    """The steps of a chart, up to now. They start at whole hours, quarters of a day and days, in UTC."""

    def __init__(self, chosen: ChartRange = LAST_DAY) -> None:
        self.range = chosen
        step = int(chosen.step.total_seconds())
        last = int(timezone.now().timestamp()) // step * step
        self.start = datetime.fromtimestamp(last, UTC) - (chosen.count - 1) * chosen.step

    @classmethod
    def from_request(cls, request: HttpRequest, ranges: Mapping[str, ChartRange] = RANGES) -> "Period":
        """Return the period that the page's query chooses; the last day by default, and for an unknown range."""
        return cls(ranges.get(request.GET.get(PARAMETER, ""), LAST_DAY))

    @property
    def count(self) -> int:
        return self.range.count

    def position(self, moment: datetime) -> int:
        """Return the index of a moment in the chart; the last one for a moment that is later, as clocks differ."""
        return min((moment - self.start) // self.range.step, self.count - 1)

    def bucket_starts(self) -> list[datetime]:
        return [self.start + position * self.range.step for position in range(self.count)]

    def chart(self, datasets: Sequence[dict[str, Any]], **more_axes: Any) -> dict[str, str]:
        return chart([f"{start:{self.range.label}}" for start in self.bucket_starts()], datasets, **more_axes)


def chart(labels: Sequence[str], datasets: Sequence[dict[str, Any]], **more_axes: Any) -> dict[str, str]:
    """Return the data and the options of a chart with a label for each point."""
    options = {
        "animation": False,
        "maintainAspectRatio": False,
        "maxBarThickness": 24,
        "plugins": {"legend": {"align": "end", "labels": {"boxHeight": 8, "boxWidth": 8, "color": GREY}}},
        "scales": {
            "x": {"stacked": True, "grid": {"display": False}, "ticks": {"color": GREY, "maxRotation": 0}},
            "y": {"stacked": True, "beginAtZero": True, "ticks": {"color": GREY, "precision": 0}},
            **more_axes,
        },
    }
    return {"data": json.dumps({"labels": labels, "datasets": datasets}), "options": json.dumps(options)}


def ranges_within(days: int) -> dict[str, ChartRange]:
    """Return the ranges of what is kept for some days; all if it is kept forever (0)."""
    return {key: each for key, each in RANGES.items() if not days or each.count * each.step <= timedelta(days=days)}


def range_links(
    request: HttpRequest, chosen: ChartRange, ranges: Mapping[str, ChartRange] = RANGES
) -> list[dict[str, Any]]:
    """Return the links of `admin/chart_ranges.html`, which keep the rest of the page's query."""
    links = []
    for key, each in ranges.items():
        query = request.GET.copy()
        query[PARAMETER] = key
        links.append({"title": each.title, "url": f"?{query.urlencode()}", "is_chosen": each == chosen})
    return links


def bars(label: str, data: Sequence[int | None] | Sequence[str | None], colour: str) -> dict[str, Any]:
    return {"label": label, "data": data, "backgroundColor": colour}


def line(label: str, points: Sequence[int | str | None], colour: str) -> dict[str, Any]:
    """Return a line with gaps where the value is unknown; a point without neighbours is drawn as one."""
    around = [None, *points, None]
    radii = [
        POINT_RADIUS if value is not None and around[index] is None and around[index + 2] is None else 0
        for index, value in enumerate(points)
    ]
    return {"label": label, "data": points, "borderColor": colour, "backgroundColor": colour, "pointRadius": radii}
