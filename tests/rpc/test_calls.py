"""The chart and the table of a relayer's calls, as its page in the admin shows them."""

from __future__ import annotations

import json
from datetime import timedelta
from html import unescape

import pytest
from django.template.loader import render_to_string
from pytest_django import DjangoAssertNumQueries

from relayers.models import Relayer
from rpc import calls
from rpc.models import CallCount
from tests.notifications.clock import NOON, Clock, clock
from tests.relayers import factories

__all__ = ["clock"]

HALF_PAST_NOON = 30 * 60
LABELS = [f"{(13 + hour) % 24:02}:00" for hour in range(24)]


def count(
    relayer: Relayer, minutes_ago: int, numbers: tuple[int, int, int], method: str = "feeEstimate", outcome: str = "ok"
) -> None:
    """Create the count of a minute before noon: calls, milliseconds of all, milliseconds of the slowest."""
    number, milliseconds, slowest = numbers
    CallCount.objects.create(
        relayer=relayer,
        minute=NOON - timedelta(minutes=minutes_ago),
        method=method,
        outcome=outcome,
        calls=number,
        milliseconds=milliseconds,
        slowest_milliseconds=slowest,
    )


@pytest.fixture
def relayer(db: None, clock: Clock) -> Relayer:
    """One with calls from the first minute of the last day's first hour to this minute; it is half past noon."""
    made, other = factories.relayer(), factories.relayer(identifier="relayer-2")
    clock.forward(HALF_PAST_NOON)
    count(made, -30, (4, 400, 200))
    count(made, 0, (2, 50, 30))
    count(made, 0, (1, 3, 3), outcome="-32602")
    count(made, 0, (5, 5, 1), method="unknown", outcome="-32601")
    # The last minute of the hour before, and the first of the chart's first hour.
    count(made, 1, (1, 1000, 1000))
    count(made, 23 * 60, (3, 90, 40), outcome="-32602")
    # Too long ago, and another's.
    count(made, 23 * 60 + 1, (100, 100, 100))
    count(other, 0, (7, 70_000, 10_000))
    return made


def test_the_last_day_is_charted_by_hour(relayer: Relayer) -> None:
    shown = calls.context(relayer)["calls"]
    nothing = [None] * 21
    latency = {"type": "line", "yAxisID": "latency", "borderWidth": 2}
    blue, dark_blue = "var(--color-blue-400)", "var(--color-blue-700)"
    assert json.loads(shown["data"]) == {
        "labels": LABELS,
        "datasets": [
            latency
            | {"label": "Mean (ms)", "borderColor": blue, "backgroundColor": blue, "data": [30, *nothing, 1000, 38]},
            latency
            | {
                "label": "Slowest (ms)",
                "borderColor": dark_blue,
                "backgroundColor": dark_blue,
                "data": [40, *nothing, 1000, 200],
            },
            {"label": "OK", "backgroundColor": "var(--color-green-500)", "data": [*[0] * 22, 1, 6]},
            {"label": "Error -32601", "backgroundColor": "var(--color-red-500)", "data": [*[0] * 23, 5]},
            {"label": "Error -32602", "backgroundColor": "var(--color-orange-400)", "data": [3, *[0] * 22, 1]},
        ],
    }
    assert {"y", "latency"} <= set(json.loads(shown["options"])["scales"])


def test_the_table_sums_up_methods_and_outcomes(relayer: Relayer) -> None:
    shown = calls.context(relayer)["calls"]
    assert (shown["total"], shown["client_errors"], shown["failed"]) == (16, 9, 0)
    assert shown["table"] == {
        "headers": ["Method", "Outcome", "Calls", "Mean", "Slowest"],
        "rows": [
            ["feeEstimate", "OK", "7", "207 ms", "1000 ms"],
            ["unknown", "Error -32601", "5", "1 ms", "1 ms"],
            ["feeEstimate", "Error -32602", "4", "23 ms", "40 ms"],
        ],
    }


def test_a_relayer_without_calls_has_an_empty_chart(db: None, clock: Clock) -> None:
    clock.forward(HALF_PAST_NOON)
    shown = calls.context(factories.relayer())["calls"]
    data = json.loads(shown["data"])
    assert data["labels"] == LABELS
    assert {item["label"]: item["data"] for item in data["datasets"]} == {
        "Mean (ms)": [None] * 24,
        "Slowest (ms)": [None] * 24,
        "OK": [0] * 24,
    }
    assert (shown["total"], shown["failed"], shown["table"]["rows"]) == (0, 0, [])


def test_calls_of_a_clock_that_is_ahead_belong_to_the_last_hour(db: None, clock: Clock) -> None:
    relayer = factories.relayer()
    count(relayer, -61, (1, 10, 10))
    datasets = json.loads(calls.context(relayer)["calls"]["data"])["datasets"]
    assert datasets[-1] == {"label": "OK", "backgroundColor": "var(--color-green-500)", "data": [*[0] * 23, 1]}


def test_it_is_one_query_however_many_rows_there_are(
    relayer: Relayer, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(1):
        calls.context(relayer)
    for minute in range(100, 400):
        count(relayer, minute, (1, 1, 1), outcome=f"-3200{minute % 7}")
    with django_assert_num_queries(1):
        shown = calls.context(relayer)
    assert shown["calls"]["total"] == 316


def test_the_page_has_the_chart_and_the_table_without_a_script(relayer: Relayer) -> None:
    count(relayer, 0, (1, 1, 1), method="<script>")
    count(relayer, 0, (2, 1, 1), outcome="-32000")
    context = calls.context(relayer)
    page = render_to_string("admin/rpc/calls.html", context)
    assert context["calls"]["data"] in unescape(page)
    assert "Calls: 19 · Client errors: 9 · Failed: 2" in page
    for cell in ("feeEstimate", "Error -32602", "207 ms", "1000 ms", "&lt;script&gt;"):
        assert cell in page
    assert "<script" not in page
