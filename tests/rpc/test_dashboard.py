"""The overview's card of the calls of the last day."""

from __future__ import annotations

from bisect import bisect_left
from datetime import timedelta

import pytest
from django.test import Client

from relayer_service.observability.call_counts import ALL_RELAYERS, BOUNDS, DURATIONS, CallCount
from tests.notifications.admin_pages import staff_who_may
from tests.notifications.clock import NOON, Clock, clock
from tests.relayer_service.admin.overview_pages import chart, lines, links, part, rows

__all__ = ["clock"]

pytestmark = pytest.mark.django_db

CARD = "JSON-RPC calls in the last 24 hours"


def calls(number: int, outcome: str = "ok", hours_ago: int = 0, slowest: int = 5) -> None:
    hour = NOON - timedelta(hours=hours_ago)
    CallCount.objects.create(
        kind=ALL_RELAYERS,
        start=hour,
        outcome=outcome,
        calls=number,
        slowest_milliseconds=slowest,
        **{DURATIONS[bisect_left(BOUNDS, slowest)]: number},
    )


@pytest.fixture
def busy(clock: Clock) -> None:
    calls(1200)
    for code in ("-32600", "-32601", "-32602", "-32001", "-32003", "-32004"):
        calls(10, code, slowest=2345)
    calls(4, "-32000", hours_ago=23)
    calls(3, "-32002")
    calls(2, "-32005")
    calls(1, "-32603")
    calls(500, "-32000", hours_ago=24, slowest=9999)


def test_what_callers_got_wrong_is_counted_apart_from_what_failed(admin_client: Client, busy: None) -> None:
    assert rows(admin_client, CARD) == [
        ["Calls", "1,270"],
        ["Client errors", "60"],
        ["Failed", "10"],
        ["Nodes unreachable (-32000)", "4"],
        ["Price unavailable (-32002)", "3"],
        ["Insufficient data (-32005)", "2"],
        ["Internal error (-32603): see the service's log", "1"],
        ["p95", "5 ms"],
    ]
    assert links(part(admin_client, CARD)) == {
        "Nodes unreachable (-32000)": "/admin/relayers/relayer/?state=disabled",
        "Price unavailable (-32002)": "/admin/rpc/feetoken/",
        "Insufficient data (-32005)": "/admin/relayers/relayer/",
    }


def test_a_price_leads_nowhere_for_staff_who_may_not_view_fee_tokens(client: Client, busy: None) -> None:
    found = links(part(staff_who_may(client, "view_relayer"), CARD))
    assert "Price unavailable (-32002)" not in found


def test_a_range_that_the_query_chooses_is_charted(admin_client: Client, busy: None) -> None:
    page = admin_client.get("/admin/?range=7d")
    (card,) = (each for each in page.context["cards"] if each.title == "JSON-RPC calls in the last 7 days")
    assert card.rows[0] == ["Calls", "1,770"]
    assert [each["title"] for each in card.ranges if each["is_chosen"]] == ["7 days"]
    assert 'href="?range=30d#calls"' in page.content.decode()


def test_calls_and_latency_are_charted_by_hour(admin_client: Client, busy: None) -> None:
    assert chart(admin_client, CARD) == {
        "p95 (ms)": [5, *[None] * 22, 5],
        "Answered": [*[0] * 23, 1200],
        "Client errors": [*[0] * 23, 60],
        "Failed": [4, *[0] * 22, 6],
    }


def test_the_overview_of_a_service_without_calls(admin_client: Client) -> None:
    assert lines(part(admin_client, CARD)) == [CARD, "There were no calls."]
