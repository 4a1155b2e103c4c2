"""The calls on a relayer's page: a chart, and a table by method."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import cycle
from typing import Any, NamedTuple, Self

from django.db.models import Max, Sum

from relayer_service.admin.charts import GREY, Period, bars, line
from relayer_service.storage import latencies
from relayer_service.storage.truncation import DayOf, HourOf
from relayers.models import Relayer
from rpc.dispatch import OK
from rpc.errors import CLIENT_ERRORS
from rpc.models import CallCount

DAY = timedelta(days=1)
OK_COLOUR = "var(--color-green-500)"
ERROR_COLOURS = [
    f"var(--color-{name})" for name in ("red-500", "orange-400", "red-300", "orange-600", "red-800", "orange-200")
]
LATENCY_COLOUR = "var(--color-blue-400)"
LATENCY_AXIS = {
    "position": "right",
    "beginAtZero": True,
    "grid": {"display": False},
    "ticks": {"color": GREY, "precision": 0},
    "title": {"display": True, "text": "ms", "color": GREY},
}
HEADERS = ["Method", "Outcome", "Calls", "p95"]


class Group(NamedTuple):
    """The calls of an hour or a day, of one method and with one outcome."""

    start: datetime
    method: str
    outcome: str
    calls: int
    slowest: int
    # Calls by duration, as in `latencies.COLUMNS`.
    durations: tuple[int, ...]

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Self:
        """Return the group of a row that has the counts of durations last, empty in rows of earlier releases."""
        start, method, outcome, calls, slowest, *durations = row
        return cls(start, method, outcome, calls, slowest, tuple(count or 0 for count in durations))


class Sums:
    def __init__(self, groups: Iterable[Group]) -> None:
        groups = list(groups)
        self.calls = sum(group.calls for group in groups)
        durations = [sum(counts) for counts in zip(*(group.durations for group in groups), strict=True)]
        slowest = max((group.slowest for group in groups), default=0)
        self.p95 = latencies.p95(durations, slowest) if durations else None

    @property
    def latency(self) -> str:
        return "-" if self.p95 is None else f"{self.p95:,} ms"


def context(relayer: Relayer, period: Period) -> dict[str, Any]:
    """Return the context of `admin/rpc/calls.html`, from one query."""
    groups = groups_in(relayer, period)
    errors = sorted({group.outcome for group in groups} - {OK})
    colours = {describe(OK): OK_COLOUR} | dict(zip(map(describe, errors), cycle(ERROR_COLOURS), strict=False))
    return {
        "calls": {
            "title": f"JSON-RPC calls in the last {period.range.title}",
            "total": sum(group.calls for group in groups),
            "client_errors": sum(group.calls for group in groups if group.outcome in CLIENT_ERRORS),
            "failed": sum(group.calls for group in groups if group.outcome not in {OK, *CLIENT_ERRORS}),
            "table": {"headers": HEADERS, "rows": table(groups)},
            **period.chart(datasets(groups, period, describe, colours), latency=LATENCY_AXIS),
        }
    }


def groups_in(relayer: Relayer, period: Period) -> list[Group]:
    start = DayOf("minute") if period.range.step >= DAY else HourOf("minute")
    rows = CallCount.objects.filter(relayer=relayer, minute__gte=period.start)
    groups = rows.values_list(start, "method", "outcome").annotate(
        Sum("calls"), Max("slowest_milliseconds"), *(Sum(column) for column in latencies.COLUMNS)
    )
    return [Group.from_row(group) for group in groups]


def datasets(
    groups: Iterable[Group], period: Period, name: Callable[[str], str], colours: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the bars of calls by the name of their outcome, and above them the line of latencies."""
    steps: list[list[Group]] = [[] for _ in range(period.count)]
    counts: dict[str, list[int]] = defaultdict(lambda: [0] * period.count)
    for group in groups:
        position = period.position(group.start)
        steps[position].append(group)
        counts[name(group.outcome)][position] += group.calls
    latency = line("p95 (ms)", [Sums(step).p95 for step in steps], LATENCY_COLOUR)
    return [
        latency | {"type": "line", "yAxisID": "latency", "borderWidth": 2},
        *(bars(label, counts[label], colour) for label, colour in colours.items()),
    ]


def table(groups: list[Group]) -> list[list[str]]:
    """Return a row for each method and outcome, most calls first."""
    kinds = {(group.method, group.outcome) for group in groups}
    sums = {kind: Sums(group for group in groups if (group.method, group.outcome) == kind) for kind in kinds}
    return [
        [method, describe(outcome), str(one.calls), one.latency]
        for (method, outcome), one in sorted(sums.items(), key=lambda item: (-item[1].calls, item[0]))
    ]


def describe(outcome: str) -> str:
    return "OK" if outcome == OK else f"Error {outcome}"
