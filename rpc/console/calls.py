"""The calls on a relayer's page: a chart, and a table by method."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Any

from relayer_service.console.overview.charts import GREY, Period, bars, line
from relayer_service.observability import call_counts
from relayer_service.observability.call_counts import OK, RELAYER, Counted, Tally
from relayers.models import Relayer
from rpc.errors import CLIENT_ERRORS

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


def context(relayer: Relayer, period: Period) -> dict[str, Any]:
    """Return the context of `admin/rpc/calls.html`, from one query."""
    counted = [*call_counts.read(RELAYER, period.start, subject=str(relayer.pk))]
    calls = Counter[str]()
    for key, tally in counted:
        calls[key.outcome] += tally.calls
    errors = sorted({*calls} - {OK})
    colours = {describe(OK): OK_COLOUR} | dict(zip(map(describe, errors), cycle(ERROR_COLOURS), strict=False))
    return {
        "calls": {
            "title": f"JSON-RPC calls in the last {period.range.title}",
            "total": calls.total(),
            "client_errors": sum(calls[outcome] for outcome in CLIENT_ERRORS),
            "failed": sum(calls[outcome] for outcome in errors if outcome not in CLIENT_ERRORS),
            "table": {"headers": HEADERS, "rows": table(counted)},
            **period.chart(datasets(counted, period, describe, colours), latency=LATENCY_AXIS),
        }
    }


def datasets(
    counted: Sequence[Counted], period: Period, name: Callable[[str], str], colours: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the bars of calls by the name of their outcome, and above them the line of latencies."""
    steps = [Tally() for _ in range(period.count)]
    bar_heights: dict[str, list[int]] = defaultdict(lambda: [0] * period.count)
    for key, tally in counted:
        position = period.position(key.start)
        steps[position].add(tally)
        bar_heights[name(key.outcome)][position] += tally.calls
    latency = line("p95 (ms)", [step.percentile() for step in steps], LATENCY_COLOUR)
    return [
        latency | {"type": "line", "yAxisID": "latency", "borderWidth": 2},
        *(bars(label, bar_heights[label], colour) for label, colour in colours.items()),
    ]


def table(counted: Sequence[Counted]) -> list[list[str]]:
    """Return a row for each method and outcome, most calls first."""
    sums: dict[tuple[str, str], Tally] = defaultdict(Tally)
    for key, tally in counted:
        sums[key.method, key.outcome].add(tally)
    return [
        [method, describe(outcome), str(tally.calls), tally.latency()]
        for (method, outcome), tally in sorted(sums.items(), key=lambda item: (-item[1].calls, item[0]))
    ]


def describe(outcome: str) -> str:
    return "OK" if outcome == OK else f"Error {outcome}"
