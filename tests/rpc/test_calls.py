"""The chart and the table of a relayer's calls, as its page in the admin shows them."""

from __future__ import annotations

import json
from bisect import bisect_left
from datetime import timedelta
from html import unescape

import pytest
from django.template.loader import render_to_string
from pytest_django import DjangoAssertNumQueries

from relayer_service.console.overview.charts import Period
from relayer_service.observability.call_counts import BOUNDS, DURATIONS, RELAYER, CallCount
from relayers.models import Relayer
from rpc.console import calls
from tests.notifications.clock import NOON, Clock, clock
from tests.relayers import factories

__all__ = ["clock"]

HALF_PAST_NOON = 30 * 60
LABELS = [f"{(13 + hour) % 24:02}:00" for hour in range(24)]


def count(
    relayer: Relayer, hours_ago: int, numbers: tuple[int, int], method: str = "feeEstimate", outcome: str = "ok"
) -> None:
    """Create the count of an hour before noon: calls, and the milliseconds of the slowest, which all took."""
    number, slowest = numbers
    CallCount.objects.create(
        kind=RELAYER,
        subject=str(relayer.pk),
        start=NOON - timedelta(hours=hours_ago),
        method=method,
        outcome=outcome,
        calls=number,
        slowest_milliseconds=slowest,
        **{DURATIONS[bisect_left(BOUNDS, slowest)]: number},
    )


@pytest.fixture
def relayer(db: None, clock: Clock) -> Relayer:
    """One with calls from the last day's first hour to this one; it is half past noon."""
    made, other = factories.relayer(), factories.relayer(identifier="relayer-2")
    clock.forward(HALF_PAST_NOON)
    count(made, 0, (4, 200))
    count(made, 0, (2, 30), method="feeQuote")
    count(made, 0, (1, 3), outcome="-32602")
    count(made, 0, (5, 1), method="unknown", outcome="-32601")
    # The hour before, and the chart's first hour.
    count(made, 1, (1, 1000))
    count(made, 23, (3, 40), outcome="-32602")
    # Too long ago, and another's.
    count(made, 24, (100, 100))
    count(other, 0, (7, 10_000))
    return made


def test_the_last_day_is_charted_by_hour(relayer: Relayer) -> None:
    shown = calls.context(relayer, Period())["calls"]
    nothing = [None] * 21
    latency = {"type": "line", "yAxisID": "latency", "borderWidth": 2}
    blue = "var(--color-blue-400)"
    assert json.loads(shown["data"]) == {
        "labels": LABELS,
        "datasets": [
            latency
            | {
                "label": "p95 (ms)",
                "borderColor": blue,
                "backgroundColor": blue,
                "data": [39, *nothing, 975, 185],
                # Without neighbours, a point is drawn.
                "pointRadius": [3, *[0] * 23],
            },
            {"label": "OK", "backgroundColor": "var(--color-green-500)", "data": [*[0] * 22, 1, 6]},
            {"label": "Error -32601", "backgroundColor": "var(--color-red-500)", "data": [*[0] * 23, 5]},
            {"label": "Error -32602", "backgroundColor": "var(--color-orange-400)", "data": [3, *[0] * 22, 1]},
        ],
    }
    assert {"y", "latency"} <= set(json.loads(shown["options"])["scales"])


def test_the_table_sums_up_methods_and_outcomes(relayer: Relayer) -> None:
    shown = calls.context(relayer, Period())["calls"]
    assert (shown["total"], shown["client_errors"], shown["failed"]) == (16, 9, 0)
    assert shown["table"] == {
        "headers": ["Method", "Outcome", "Calls", "p95"],
        "rows": [
            ["feeEstimate", "OK", "5", "875 ms"],
            ["unknown", "Error -32601", "5", "1 ms"],
            ["feeEstimate", "Error -32602", "4", "39 ms"],
            ["feeQuote", "OK", "2", "30 ms"],
        ],
    }


def test_it_is_one_query_however_many_rows_there_are(
    relayer: Relayer, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(1):
        calls.context(relayer, Period())
    for number in range(300):
        count(relayer, number % 20, (1, 1), outcome=f"-{number}")
    with django_assert_num_queries(1):
        shown = calls.context(relayer, Period())
    assert shown["calls"]["total"] == 316


def test_the_page_has_the_chart_and_the_table_without_a_script(relayer: Relayer) -> None:
    count(relayer, 0, (1, 1), method="<script>")
    count(relayer, 0, (2, 1), outcome="-32000")
    context = calls.context(relayer, Period())
    page = render_to_string("admin/rpc/calls.html", context)
    assert context["calls"]["data"] in unescape(page)
    assert "Calls: 19 · Client errors: 9 · Failed: 2" in page
    for cell in ("feeEstimate", "Error -32602", "875 ms", "&lt;script&gt;"):
        assert cell in page
    assert "<script" not in page
