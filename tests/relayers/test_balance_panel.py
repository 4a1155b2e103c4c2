"""The panel of a relayer's balance: charts by range, the runway, and the address to top up."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import strip_tags

from relayers.health.balance_hours import DAY, HOUR
from tests.notifications.clock import NOON, Clock, clock
from tests.relayers import factories
from tests.relayers.factories import ADDRESS

__all__ = ["clock"]

pytestmark = pytest.mark.django_db

AT_NOON = int(NOON.timestamp())
MIDNIGHT = AT_NOON - 12 * HOUR
ETH = 10**18


def page(client: Client, query: str = "", **columns: Any) -> Any:
    relayer = factories.relayer(**columns)
    return client.get(f"/admin/relayers/relayer/{relayer.pk}/change/{query}")


def datasets(chart: dict[str, str]) -> dict[str, list[Any]]:
    return {each["label"]: each["data"] for each in json.loads(chart["data"])["datasets"]}


HISTORY: dict[str, Any] = {
    "balance_hours": [
        [AT_NOON - 9 * DAY, str(3 * ETH)],
        [AT_NOON - DAY, str(2 * ETH)],
        [AT_NOON - HOUR, str(ETH // 2)],
    ],
    "minimum_hours": [[AT_NOON - 2 * HOUR, str(ETH)], [AT_NOON, str(ETH // 4)]],
}


def test_the_last_day_is_by_hour_with_the_minimum_of_each_hour(admin_client: Client, clock: Clock) -> None:
    shown = page(admin_client, policies={"min_balance": ETH // 4}, **HISTORY).context["balance_panel"]
    assert datasets(shown["chart"]) == {
        "Balance (ETH)": ["2"] * 22 + ["0.5"] * 2,
        "Minimum (ETH)": [None] * 21 + ["1", "1", "0.25"],
    }
    assert json.loads(shown["chart"]["data"])["labels"][-1] == "12:00"
    assert shown["caption"] == "Balance by hour, in ETH; times are in UTC."


@pytest.mark.parametrize(
    ("key", "balances", "label"),
    [
        ("7d", ["3"] * 23 + ["2"] * 3 + ["0.5"] * 2, "Thu 12:00"),
        ("30d", [None] * 20 + ["3"] * 8 + ["2", "0.5"], "01 Jan"),
    ],
)
def test_longer_ranges_have_longer_steps(
    admin_client: Client, clock: Clock, key: str, balances: list[Any], label: str
) -> None:
    shown = page(admin_client, f"?range={key}", **HISTORY).context["balance_panel"]
    assert datasets(shown["chart"])["Balance (ETH)"] == balances
    assert json.loads(shown["chart"]["data"])["labels"][-1] == label


def test_the_ranges_are_links_that_keep_the_query_and_mark_the_chosen_one(admin_client: Client) -> None:
    shown = page(admin_client, "?_changelist_filters=q%3Da&range=7d", **HISTORY).context["balance_panel"]
    assert shown["ranges"] == [
        {"title": "24 hours", "url": "?_changelist_filters=q%3Da&range=24h", "is_chosen": False},
        {"title": "7 days", "url": "?_changelist_filters=q%3Da&range=7d", "is_chosen": True},
        {"title": "30 days", "url": "?_changelist_filters=q%3Da&range=30d", "is_chosen": False},
    ]


@pytest.mark.parametrize("key", ["", "8d", "<script>"])
def test_an_unknown_range_is_the_last_day(admin_client: Client, clock: Clock, key: str) -> None:
    shown = page(admin_client, f"?range={key}", **HISTORY).context["balance_panel"]
    assert [each["is_chosen"] for each in shown["ranges"]] == [True, False, False]


def test_a_single_reading_is_drawn_as_a_point(admin_client: Client, clock: Clock) -> None:
    chart = page(admin_client, balance_hours=[[AT_NOON, "5"]]).context["balance_panel"]["chart"]
    (balance,) = json.loads(chart["data"])["datasets"]
    assert balance["pointRadius"] == [0] * 23 + [3]


def test_there_is_no_chart_before_a_balance_was_read(admin_client: Client) -> None:
    shown = page(admin_client).context["balance_panel"]
    assert (shown["facts"], "chart" in shown) == ({"Balance": "unknown"}, False)


def test_the_outflow_of_each_day_and_how_long_the_balance_lasts(admin_client: Client, clock: Clock) -> None:
    outflows = [[MIDNIGHT - 6 * DAY, str(ETH)], [MIDNIGHT, str(ETH * 11 // 2 + 1)]]
    columns = HISTORY | {"policies": {"min_balance": ETH // 4}}
    shown = page(admin_client, balance_text=str(6 * ETH), outflow_days=outflows, **columns).context["balance_panel"]
    assert shown["facts"] == {
        "Balance": "6 ETH",
        "Minimum": "0.25 ETH",
        "Spent per day": "1 ETH (7-day average)",
        "Runway": "At this rate empty in 6 days",
    }
    assert datasets(shown["outflow_chart"]) == {"Spent (ETH)": ["1", "0", "0", "0", "0", "0", "5.500000000000000001"]}


def test_the_last_known_balance_stays_with_its_age(admin_client: Client) -> None:
    now = timezone.now()
    columns: dict[str, Any] = {"balance_text": str(ETH), "balance_at": now - timedelta(minutes=12), "checked_at": now}
    shown = page(admin_client, **columns).context["balance_panel"]["facts"]
    assert shown == {"Balance": "1 ETH, read 12\xa0minutes ago"}
    listed = strip_tags(admin_client.get("/admin/relayers/relayer/").content.decode())
    assert "1 ETHread 12\xa0minutes ago" in listed


def test_the_address_to_top_up_has_a_qr_code_and_its_page_in_the_explorer(admin_client: Client) -> None:
    response = page(admin_client)
    shown = response.context["balance_panel"]["top_up"]
    assert (shown["address"], shown["explorer_url"]) == (ADDRESS, f"https://sepolia.etherscan.io/address/{ADDRESS}")
    assert shown["qr_code"].startswith("<svg ")
    assert str(shown["qr_code"]) in response.content.decode()


def test_a_relayer_without_an_address_has_no_top_up(admin_client: Client) -> None:
    assert page(admin_client, address="").context["balance_panel"]["top_up"] == {}
