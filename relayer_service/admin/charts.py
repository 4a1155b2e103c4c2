"""Charts of the last 24 hours, with one bar per hour."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

HOURS = 24
GREY = "#9ca3af"


class LastDay:
    def __init__(self) -> None:
        self.start = timezone.now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS - 1)

    def position(self, hour: datetime) -> int:
        """Return the index of an hour in the chart; the last one for an hour that is later, as clocks differ."""
        return min(round((hour - self.start) / timedelta(hours=1)), HOURS - 1)

    def hour(self, position: int) -> datetime:
        return self.start + timedelta(hours=position)

    def chart(self, datasets: Sequence[dict[str, Any]], **more_axes: Any) -> dict[str, str]:
        labels = [f"{self.hour(position):%H:%M}" for position in range(HOURS)]
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


def bars(label: str, data: Sequence[int | None], colour: str) -> dict[str, Any]:
    return {"label": label, "data": data, "backgroundColor": colour}
