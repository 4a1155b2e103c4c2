"""Lists of any size: tabs, orders that have an index, and pages."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import F
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from relayer_service.console.lists import changelists
from relayers.admin import RelayerAdmin, RelayerPaginator
from relayers.models import Relayer
from relayers.models.health import BALANCE_ORDER
from tests.notifications.admin_pages import rows, staff_who_may
from tests.relayer_service.storage.test_prefixes import plan_of
from tests.relayers import factories
from tests.relayers.factories import set_paused
from tokens.writes import issue

pytestmark = pytest.mark.django_db

LIST = "/admin/relayers/relayer/"


def tabs(page: Any) -> list[tuple[str, str, bool]]:
    """The tabs of a list: where each leads to, its title, and whether it is the active one."""
    nav = re.search(r'<nav id="tabs-items".*?</nav>', page.content.decode(), re.DOTALL)
    assert nav
    links = re.findall(r'<a href="([^"]*)" class="(active)?"\s*>\s*(.*?)\s*</a>', nav[0], re.DOTALL)
    return [(link.replace("&amp;", "&"), re.sub("<.*?>", "", title), bool(active)) for link, active, title in links]


def found(client: Client, query: str) -> list[str]:
    return [row[1] for row in rows(client.get(f"{LIST}?{query}"))]


def test_the_states_are_tabs_and_the_active_one_is_marked(admin_client: Client) -> None:
    factories.relayer(paused=True)
    assert tabs(admin_client.get(LIST)) == [
        ("?", "All 1", True),
        ("?state=disabled", "Disabled 0", False),
        ("?state=low+balance", "Low balance 0", False),
        ("?state=paused", "Paused 1", False),
        ("?state=no+address", "No address 0", False),
        ("?state=nodes+failing", "Nodes failing 0", False),
        ("?state=unknown", "Unknown 1", False),
        ("?state=active", "Active 0", False),
    ]
    page = admin_client.get(f"{LIST}?state=paused")
    assert [title for _, title, active in tabs(page) if active] == ["Paused 1"]
    # Not among the filters besides.
    assert "By network" in page.content.decode()
    assert "By state" not in page.content.decode()


def test_a_tab_keeps_search_and_filters_and_begins_at_the_first_page(admin_client: Client) -> None:
    page = admin_client.get(f"{LIST}?q=relayer&network=sepolia&state=paused&o=1&p=1")
    assert tabs(page)[:2] == [
        ("?q=relayer&network=sepolia&o=1", "All", False),
        ("?q=relayer&network=sepolia&o=1&state=disabled", "Disabled", False),
    ]


def test_tabs_count_up_to_a_limit_in_one_query(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changelists, "MAX_COUNTED", 2)
    for number in range(3):
        factories.relayer(identifier=f"r-{number}", paused=True)
    with CaptureQueriesContext(connection) as queries:
        page = admin_client.get(f"{LIST}?state=paused")
    assert [title for _, title, _ in tabs(page)] == [
        *("All 3", "Disabled 0", "Low balance 0", "Paused 2+", "No address 0", "Nodes failing 0", "Unknown 2+"),
        "Active 0",
    ]
    assert len([query for query in queries if " AS counted)" in query["sql"]]) == 1


def test_tabs_of_a_filtered_list_have_no_counts_and_cost_no_query(admin_client: Client) -> None:
    factories.relayer()
    with CaptureQueriesContext(connection) as queries:
        page = admin_client.get(f"{LIST}?network=sepolia")
    assert [title for _, title, _ in tabs(page)][:2] == ["All", "Disabled"]
    assert not [query for query in queries if " AS counted)" in query["sql"]]


def chips(page: Any) -> list[tuple[str, str]]:
    """The active filters of a list: what each is called, and where it leads to."""
    found = re.search(r'<ul class="active-filters".*?</ul>', page.content.decode(), re.DOTALL)
    links = re.findall(r'<a [^>]*?href="([^"]*)"[^>]*>(.*?)</a>', found[0], re.DOTALL) if found else []
    # Without the icon.
    return [(re.sub("<.*?>|close", "", title), link.replace("&amp;", "&")) for link, title in links]


def test_active_filters_are_named_and_each_can_be_removed(admin_client: Client) -> None:
    signer = factories.signer("eu-key")
    for network in ("mainnet", "my chain", "sepolia"):
        factories.relayer(identifier=network, network=network, signer=signer, chain_id=None)
    query = f"q=ain&network=mainnet&network=my+chain&signer__sequence__exact={signer.pk}&o=1"
    page = admin_client.get(f"{LIST}?{query}&p=1")
    assert chips(page) == [
        ("Network: mainnet", f"?q=ain&network=my+chain&signer__sequence__exact={signer.pk}&o=1"),
        ("Network: my chain", f"?q=ain&network=mainnet&signer__sequence__exact={signer.pk}&o=1"),
        ("Signer: eu-key", "?q=ain&network=mainnet&network=my+chain&o=1"),
        ("Clear all", "?q=ain&o=1"),
    ]
    assert sorted(row[1] for row in rows(page)) == ["mainnet", "my chain"]
    assert chips(admin_client.get(f"{LIST}?q=ain&state=paused&network=")) == []


def test_an_active_filter_shows_no_name_that_its_viewer_may_not_see(client: Client) -> None:
    viewer, signer = staff_who_may(client, "view_relayer"), factories.signer("eu-key")
    page = viewer.get(f"{LIST}?signer__sequence__exact={signer.pk}")
    assert chips(page)[0] == (f"Signer: {signer.pk}", "?")


def test_days_and_choices_are_named_among_the_active_filters(admin_client: Client) -> None:
    day = "2026-11-01"
    page = admin_client.get(f"/admin/relayer_service/auditentry/?at_from={day}&actor_kind__exact=token")
    assert chips(page) == [
        ("Kind of actor: Token", f"?at_from={day}"),
        (f"When from: {day}", "?actor_kind__exact=token"),
        ("Clear all", "?"),
    ]


@pytest.mark.parametrize("path", ["relayers/relayer", "signers/signer", "tokens/accesstoken", "rpc/feetoken"])
def test_deletion_is_the_last_action(admin_client: Client, admin_user: User, path: str) -> None:
    factories.relayer()
    issue(name="ci", user=admin_user)
    page = admin_client.get(f"/admin/{path}/")
    names = [name for name, _ in page.context["cl"].model_admin.get_action_choices(page.wsgi_request)]
    assert names[-1] == "delete_selected"


@pytest.mark.parametrize(
    ("path", "titles"),
    [
        ("notifications/delivery", ["All", "Failed 0", "Pending 0", "Delivered 0"]),
        ("notifications/notification", ["All", "Failing 0", "Gone 0", "Disabled 0", "OK 0"]),
        ("rpc/feetoken", ["All", "OK 0", "Stale 0", "Failed 0", "Not read yet 0", "Off 0"]),
    ],
)
def test_other_lists_have_tabs_for_their_states(admin_client: Client, path: str, titles: list[str]) -> None:
    assert [title for _, title, _ in tabs(admin_client.get(f"/admin/{path}/"))] == titles


def test_a_list_is_sorted_by_what_is_indexed_and_by_nothing_else(admin_client: Client) -> None:
    now = timezone.now()
    create = partial(factories.relayer, checked_at=now)
    create(identifier="one", name="b", network="x", address="0xB", balance_text="9")
    create(identifier="two", name="C", network="z", address="0xc", checked_at=now - timedelta(hours=1))
    create(identifier="three", name="A", network="y", address="0xa", balance_text="10" + 76 * "0")
    assert found(admin_client, "o=1") == ["three", "one", "two"]
    assert found(admin_client, "o=-1") == ["two", "one", "three"]
    # Ties in the direction of the order, as the index has them.
    assert found(admin_client, "o=7") == ["two", "one", "three"]
    assert found(admin_client, "o=-7") == ["three", "one", "two"]
    assert found(admin_client, "o=8") == ["one", "two", "three"]
    assert found(admin_client, "o=4") == ["one", "three", "two"]
    assert found(admin_client, "o=5") == ["three", "one", "two"]
    # Unknown balances are the lowest.
    assert found(admin_client, "o=6") == ["two", "one", "three"]
    assert found(admin_client, "o=-6") == ["three", "one", "two"]
    newest = ["three", "two", "one"]
    assert found(admin_client, "") == found(admin_client, "o=3") == found(admin_client, "o=99") == newest
    # All but the state: a relayer can be in several.
    sortable = re.findall(r'<a href="\?o=(\d+)[^"]*"', admin_client.get(LIST).content.decode())
    assert set(sortable) == {"1", "2", "4", "5", "6", "7", "8"}


@pytest.mark.postgresql
@pytest.mark.parametrize(
    ("order", "index"), [(BALANCE_ORDER, "health_balance"), (F("health__checked_at"), "health_checked")]
)
def test_the_readings_of_relayers_are_sorted_by_their_index(order: Any, index: str) -> None:
    factories.relayer()
    page = RelayerPaginator(Relayer.objects.order_by(order, "pk"), 50).page(1)
    assert index in plan_of(page.object_list)


@pytest.mark.parametrize("query", ["", "state=unknown", "q=r-", "o=1", "state=unknown&o=7", "network=sepolia"])
def test_every_page_costs_as_many_queries_and_they_have_all_rows_once(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setattr(RelayerAdmin, "list_per_page", 2)
    for number in range(6):
        factories.relayer(identifier=f"r-{number}")
    admin_client.get(LIST)
    seen, costs = [], []
    for page in (1, 2, 3):
        with CaptureQueriesContext(connection) as queries:
            seen += found(admin_client, f"{query}&p={page}")
        costs.append(len(queries))
    assert sorted(seen) == [f"r-{number}" for number in range(6)]
    assert costs[0] == costs[1] == costs[2]


def test_a_long_list_has_pages_for_its_first_rows_and_shows_the_total(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changelists, "MAX_LISTED", 3)
    for number in range(5):
        factories.relayer(identifier=f"r-{number}")
    page = admin_client.get(LIST)
    assert (page.context["cl"].result_count, page.context["cl"].paginator.count) == (5, 3)
    assert (
        "in total: only the first 3 are listed; use the search and the filters to find others" in page.content.decode()
    )
    narrowed = admin_client.get(f"{LIST}?state=unknown")
    assert narrowed.context["cl"].result_count == 3
    assert (
        "or more: only the first are listed; use the search and the filters to find others"
        in narrowed.content.decode()
    )
    with CaptureQueriesContext(connection) as queries:
        admin_client.get(f"{LIST}?state=unknown&o=1")
    counts = [query["sql"] for query in queries if "COUNT(*)" in query["sql"]]
    [count] = [sql for sql in counts if "AS counted" not in sql]
    assert "LIMIT 3" in count
    assert "ORDER BY" not in count
    # Whoever selects all selects more than were counted.
    monkeypatch.setattr(RelayerAdmin, "list_per_page", 2)
    assert "Select all 5 relayers" in admin_client.get(LIST).content.decode()
    asked = admin_client.get(f"{LIST}?state=unknown").content.decode()
    assert "Select all results, at least 3 relayers" in asked


@pytest.mark.parametrize(
    "path",
    [
        *("relayers/relayer/?network=%00", "signers/signer/?type__exact=a%00", "notifications/delivery/?event=%00"),
        *("relayer_service/auditentry/?object_type=%00", "rpc/feetoken/?state=ok&network=%00"),
    ],
)
def test_a_filter_that_no_database_accepts_is_left_out(admin_client: Client, path: str) -> None:
    answer = admin_client.get(f"/admin/{path}")
    assert (answer.status_code, answer["Location"]) == (302, f"/admin/{path.partition('?')[0]}?e=1")


def test_a_choice_that_is_searched_for_by_what_no_database_accepts_is_not_found(admin_client: Client) -> None:
    factories.signer()
    field = {"app_label": "relayers", "model_name": "relayer", "field_name": "signer"}
    found = admin_client.get("/admin/autocomplete/", {**field, "term": "\0"})
    assert found.json() == {"results": [], "pagination": {"more": False}}


@pytest.mark.parametrize(
    ("path", "searched"),
    [
        ("relayers/relayer", "any part of an ID, name, address or network"),
        ("notifications/delivery", "the full webhook-id"),
    ],
)
def test_a_list_without_results_explains_the_search(admin_client: Client, path: str, searched: str) -> None:
    page = admin_client.get(f"/admin/{path}/?q=none").content.decode()
    assert f"“none” was searched for as {searched}." in page


def test_a_relayers_page_leads_to_its_deliveries(admin_client: Client) -> None:
    hook = factories.notification()
    for name in ("eu/1 ü", "other"):
        relayer = factories.relayer(identifier=name, notification=hook, paused=name == "other")
        set_paused(relayer, not relayer.paused)
    relayer = Relayer.objects.get(identifier="eu/1 ü")
    page = admin_client.get(f"{LIST}{relayer.pk}/change/").content.decode()
    assert "Deliveries of this relayer" in page
    leads_to = admin_client.get(f"{LIST}{relayer.pk}/deliveries/")
    assert leads_to["Location"] == "/admin/notifications/delivery/?relayer=eu%2F1+%C3%BC"
    listed = rows(admin_client.get(leads_to["Location"]))
    assert [row[1:3] for row in listed] == [["relayer.paused", "eu/1 ü"]]


def test_who_may_not_see_deliveries_is_not_led_to_them(client: Client) -> None:
    viewer = staff_who_may(client, "view_relayer")
    relayer = factories.relayer()
    assert "Deliveries of this relayer" not in viewer.get(f"{LIST}{relayer.pk}/change/").content.decode()
    assert viewer.get(f"{LIST}{relayer.pk}/deliveries/").status_code == 403
