"""The panel of a relayer's balance: charts by range, the runway, and the address to top up."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import strip_tags

from relayers.health.balance_hours import DAY, HOUR
from tests.notifications.clock import NOON, Clock
from tests.relayers import factories
from tests.relayers.factories import ADDRESS

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


@pytest.mark.parametrize(
    ("key", "balances", "minimums", "label"),
    [
        ("24h", ["2"] * 22 + ["0.5"] * 2, [None] * 21 + ["1", "1", "0.25"], "12:00"),
        ("7d", ["3"] * 23 + ["2"] * 3 + ["0.5"] * 2, [None] * 26 + ["1", "0.25"], "Thu 12:00"),
        ("30d", [None] * 20 + ["3"] * 8 + ["2", "0.5"], [None] * 29 + ["0.25"], "01 Jan"),
        ("<script>", ["2"] * 22 + ["0.5"] * 2, [None] * 21 + ["1", "1", "0.25"], "12:00"),
    ],
)
def test_each_range_has_its_steps_and_its_link(
    admin_client: Client, clock: Clock, key: str, balances: list[Any], minimums: list[Any], label: str
) -> None:
    query = f"?_changelist_filters=q%3Da&range={key}"
    shown = page(admin_client, query, policies={"min_balance": ETH // 4}, **HISTORY).context["balance_panel"]
    assert datasets(shown["chart"]) == {"Balance (ETH)": balances, "Minimum (ETH)": minimums}
    assert json.loads(shown["chart"]["data"])["labels"][-1] == label
    titles = {"24h": "24 hours", "7d": "7 days", "30d": "30 days"}
    chosen = key if key in titles else "24h"
    assert shown["ranges"] == [
        {"title": title, "url": f"?_changelist_filters=q%3Da&range={each}", "is_chosen": each == chosen}
        for each, title in titles.items()
    ]
    if chosen == "24h":
        assert shown["caption"] == "Balance by hour, in ETH; times are in UTC."


def test_a_single_reading_is_a_point_beside_the_address_to_top_up(admin_client: Client, clock: Clock) -> None:
    response = page(admin_client, balance_hours=[[AT_NOON, "5"]])
    shown = response.context["balance_panel"]
    (balance,) = json.loads(shown["chart"]["data"])["datasets"]
    assert balance["pointRadius"] == [0] * 23 + [3]
    top_up = shown["top_up"]
    assert (top_up["address"], top_up["explorer_url"]) == (ADDRESS, f"https://sepolia.etherscan.io/address/{ADDRESS}")
    assert top_up["qr_code"].startswith("<svg ")
    assert str(top_up["qr_code"]) in response.content.decode()


def test_the_last_known_balance_stays_with_its_age(admin_client: Client) -> None:
    now = timezone.now()
    columns: dict[str, Any] = {"balance_text": str(ETH), "balance_at": now - timedelta(minutes=12), "checked_at": now}
    shown = page(admin_client, **columns).context["balance_panel"]["facts"]
    assert strip_tags(shown["Balance"]) == "1 ETH, read 12\xa0minutes ago"
    listed = strip_tags(admin_client.get("/admin/relayers/relayer/").content.decode())
    assert "1 ETHread 12\xa0minutes ago" in listed


def test_a_relayer_without_balance_and_address_has_neither_chart_nor_top_up(admin_client: Client) -> None:
    shown = page(admin_client, address="").context["balance_panel"]
    assert (shown["facts"], "chart" in shown, shown["top_up"]) == ({"Balance": "unknown"}, False, {})


def test_the_outflow_of_each_day_and_how_long_the_balance_lasts(admin_client: Client, clock: Clock) -> None:
    outflows = [[MIDNIGHT - 6 * DAY, str(ETH)], [MIDNIGHT, str(ETH * 11 // 2 + 1)]]
    columns = HISTORY | {"policies": {"min_balance": ETH // 4}}
    columns |= {"reserve_text": str(2 * ETH)}
    shown = page(admin_client, balance_text=str(6 * ETH + 1), outflow_days=outflows, **columns).context[
        "balance_panel"
    ]
    # Six digits, with all of them as the tooltip.
    assert 'title="6.000000000000000001 ETH"' in shown["facts"]["Balance"]
    assert {name: strip_tags(value) for name, value in shown["facts"].items()} == {
        "Balance": "6 ETH",
        "Minimum balance": "0.25 ETH: below it, a warning",
        "Reserve": "2 ETH: it stops sending",
        "Spent per day": "1 ETH (7-day average)",
        "Runway": "At this rate used up in 4 days",
    }
    for chart in (shown["chart"], shown["outflow_chart"]):
        assert json.loads(chart["options"])["scales"]["y"]["ticks"]["format"]["notation"] == "standard"
    assert datasets(shown["outflow_chart"]) == {"Spent (ETH)": ["1", "0", "0", "0", "0", "0", "5.500000000000000001"]}
