"""The calls of the last day on a relayer's page: a chart, and a table by method."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from itertools import cycle
from typing import Any, NamedTuple

from django.db.models import Max, Sum
from django.db.models.functions import TruncHour

from relayer_service.admin.charts import GREY, HOURS, LastDay, bars
from relayers.models import Relayer
from rpc.dispatch import OK
from rpc.errors import CLIENT_ERRORS
from rpc.models import CallCount

OK_COLOUR = "var(--color-green-500)"
ERROR_COLOURS = [
    f"var(--color-{name})" for name in ("red-500", "orange-400", "red-300", "orange-600", "red-800", "orange-200")
]
MEAN_COLOUR = "var(--color-blue-400)"
SLOWEST_COLOUR = "var(--color-blue-700)"
LATENCY_AXIS = {
    "position": "right",
    "beginAtZero": True,
    "grid": {"display": False},
    "ticks": {"color": GREY, "precision": 0},
    "title": {"display": True, "text": "ms", "color": GREY},
}
HEADERS = ["Method", "Outcome", "Calls", "Mean", "Slowest"]


class Group(NamedTuple):
    """The calls of an hour, of one method and with one outcome."""

    hour: datetime
    method: str
    outcome: str
    calls: int
    milliseconds: int
    slowest: int


class Sums:
    def __init__(self, groups: Iterable[Group]) -> None:
        groups = list(groups)
        self.calls = sum(group.calls for group in groups)
        milliseconds = sum(group.milliseconds for group in groups)
        self.mean = round(milliseconds / self.calls) if self.calls else None
        self.slowest = max((group.slowest for group in groups), default=None)


def context(relayer: Relayer) -> dict[str, Any]:
    """Return the context of `admin/rpc/calls.html`, from one query."""
    day = LastDay()
    groups = groups_since(relayer, day.start)
    errors = sorted({group.outcome for group in groups} - {OK})
    colours = {describe(OK): OK_COLOUR} | dict(zip(map(describe, errors), cycle(ERROR_COLOURS), strict=False))
    return {
        "calls": {
            "total": sum(group.calls for group in groups),
            "client_errors": sum(group.calls for group in groups if group.outcome in CLIENT_ERRORS),
            "failed": sum(group.calls for group in groups if group.outcome not in {OK, *CLIENT_ERRORS}),
            "table": {"headers": HEADERS, "rows": table(groups)},
            **day.chart(datasets(groups, day, describe, colours), latency=LATENCY_AXIS),
        }
    }


def groups_since(relayer: Relayer, first: datetime) -> list[Group]:
    rows = CallCount.objects.filter(relayer=relayer, minute__gte=first)
    groups = rows.values_list(TruncHour("minute"), "method", "outcome").annotate(
        Sum("calls"), Sum("milliseconds"), Max("slowest_milliseconds")
    )
    return [Group(*group) for group in groups]


def datasets(
    groups: Iterable[Group], day: LastDay, name: Callable[[str], str], colours: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the bars of calls by the name of their outcome, and above them the lines of latencies."""
    hours: list[list[Group]] = [[] for _ in range(HOURS)]
    counts: dict[str, list[int]] = defaultdict(lambda: [0] * HOURS)
    for group in groups:
        position = day.position(group.hour)
        hours[position].append(group)
        counts[name(group.outcome)][position] += group.calls
    sums = [Sums(hour) for hour in hours]
    return [
        line("Mean (ms)", [each.mean for each in sums], MEAN_COLOUR),
        line("Slowest (ms)", [each.slowest for each in sums], SLOWEST_COLOUR),
        *(bars(label, counts[label], colour) for label, colour in colours.items()),
    ]


def line(label: str, data: list[int | None], colour: str) -> dict[str, Any]:
    """Return a line on the axis of latencies, with gaps for hours without calls."""
    return bars(label, data, colour) | {"type": "line", "yAxisID": "latency", "borderColor": colour, "borderWidth": 2}


def table(groups: list[Group]) -> list[list[str]]:
    """Return a row for each method and outcome, most calls first."""
    kinds = {(group.method, group.outcome) for group in groups}
    sums = {kind: Sums(group for group in groups if (group.method, group.outcome) == kind) for kind in kinds}
    return [
        [method, describe(outcome), str(one.calls), f"{one.mean} ms", f"{one.slowest} ms"]
        for (method, outcome), one in sorted(sums.items(), key=lambda item: (-item[1].calls, item[0]))
    ]


def describe(outcome: str) -> str:
    return "OK" if outcome == OK else f"Error {outcome}"
