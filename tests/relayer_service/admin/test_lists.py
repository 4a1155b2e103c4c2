"""Lists of any size: tabs, orders that have an index, and pages."""

import re
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from notifications.models import Notification
from relayer_service.console.lists import changelists
from relayers.admin import RelayerAdmin, RelayerPaginator
from relayers.models import Relayer
from relayers.models.health import BALANCE_ORDER
from tests.notifications.admin_pages import rows, staff_who_may
from tests.relayer_service.storage.test_prefixes import plan_of
from tests.relayers import factories
from tests.relayers.factories import set_paused

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
        ("?state=waiting+for+funds", "Waiting for funds 0", False),
        ("?state=disabled", "Disabled 0", False),
        ("?state=low+balance", "Low balance 0", False),
        ("?state=paused", "Paused 1", False),
        ("?state=no+address", "No address 0", False),
        ("?state=nodes+failing", "About to be disabled 0", False),
        ("?state=unknown", "Unknown 1", False),
        ("?state=active", "Active 0", False),
    ]
    page = admin_client.get(f"{LIST}?state=paused")
    assert re.search(r"<title>\s*Relayers \| Relayer Management\s*</title>", page.content.decode())
    assert [title for _, title, active in tabs(page) if active] == ["Paused 1"]
    # Not among the filters besides.
    assert "By network" in page.content.decode()
    assert "By state" not in page.content.decode()


def test_tabs_count_what_is_filtered_up_to_a_limit_and_in_one_query(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changelists, "MAX_COUNTED", 2)
    for number in range(3):
        factories.relayer(identifier=f"r-{number}", paused=True)

    def counted(query: str) -> tuple[list[str], int]:
        with CaptureQueriesContext(connection) as queries:
            page = admin_client.get(f"{LIST}?{query}")
        return [title for _, title, _ in tabs(page)], sum(" AS counted)" in query["sql"] for query in queries)

    titles = [
        "All 3",
        "Waiting for funds 0",
        "Disabled 0",
        "Low balance 0",
        "Paused 2+",
        "No address 0",
        "About to be disabled 0",
        "Unknown 2+",
    ]
    assert counted("state=paused") == ([*titles, "Active 0"], 1)
    names = [title.rpartition(" ")[0] for title in titles]
    factories.relayer(identifier="other", network="mainnet")
    filtered = ["All 1", *(f"{title.rpartition(' ')[0]} 0" for title in titles[1:7]), "Unknown 1", "Active 0"]
    assert counted("network=mainnet") == (filtered, 0)
    found = counted("q=r-")[0]
    assert [found[0], found[4], found[7]] == ["All 3", "Paused 2+", "Unknown 2+"]
    # Rows of other states may take long to find.
    assert counted("q=r-&state=active") == (["All", *names[1:], "Active"], 0)
    # A tab keeps search and filters, and begins at the first page.
    page = admin_client.get(f"{LIST}?q=relayer&network=sepolia&state=paused&o=1&p=1")
    assert tabs(page)[:2] == [
        ("?q=relayer&network=sepolia&o=1", "All", False),
        ("?q=relayer&network=sepolia&o=1&state=waiting+for+funds", "Waiting for funds", False),
    ]
    # A number is not shown if more rows than are read may have the state.
    monkeypatch.setattr(changelists, "MAX_LISTED", 3)
    assert counted("q=r-") == (["All 2+", *names[1:4], "Paused 2+", *names[5:7], "Unknown 2+", "Active"], 0)


def test_tabs_count_what_a_link_to_the_list_selects(admin_client: Client) -> None:
    for name in ("a", "b", "c"):
        factories.relayer(identifier=name)
    assert titles(admin_client.get(f"{LIST}?identifier__in=a,b"))[0] == "All 2"


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
    # No name that its viewer may not see.
    viewer = staff_who_may(Client(), "view_relayer")
    assert chips(viewer.get(f"{LIST}?signer__sequence__exact={signer.pk}"))[0] == (f"Signer: {signer.pk}", "?")
    day = "2026-11-01"
    page = admin_client.get(f"/admin/relayer_service/auditentry/?at_from={day}&actor_kind__exact=token")
    assert chips(page) == [
        ("Kind of actor: Token", f"?at_from={day}"),
        (f"When from: {day}", "?actor_kind__exact=token"),
        ("Clear all", "?"),
    ]


def test_other_lists_have_tabs_for_their_states_and_deletion_as_the_last_action(admin_client: Client) -> None:
    assert {path: titles(admin_client.get(f"/admin/{path}/")) for path in STATES} == STATES
    Notification.objects.create(identifier="hook", url="https://hooks.example.com")
    page = admin_client.get("/admin/notifications/notification/")
    names = [name for name, _ in page.context["cl"].model_admin.get_action_choices(page.wsgi_request)]
    assert names[-1] == "delete_selected"


STATES = {
    "notifications/delivery": ["All", "Failed 0", "Pending 0", "Delivered 0"],
    "notifications/notification": ["All", "Failing 0", "Gone 0", "Disabled 0", "OK 0"],
    "rpc/feetoken": ["All", "OK 0", "Stale 0", "Failed 0", "Not read yet 0", "Off 0"],
}


def titles(page: Any) -> list[str]:
    return [title for _, title, _ in tabs(page)]


def test_a_list_is_sorted_by_what_is_indexed_and_by_nothing_else(admin_client: Client) -> None:
    now = timezone.now()
    create = partial(factories.relayer, checked_at=now)
    create(identifier="one", name="b", network="x", address="0xB", balance_text="9")
    create(identifier="two", name="C", network="z", address="0xc", checked_at=now - timedelta(hours=1))
    create(identifier="three", name="A", network="y", address="0xa", balance_text="10" + 76 * "0")
    assert found(admin_client, "o=1") == ["three", "one", "two"]
    assert found(admin_client, "o=-1") == ["two", "one", "three"]
    # Ties in the direction of the order, as the index has them.
    assert found(admin_client, "o=9") == ["two", "one", "three"]
    assert found(admin_client, "o=-9") == ["three", "one", "two"]
    assert found(admin_client, "o=10") == ["one", "two", "three"]
    assert found(admin_client, "o=4") == ["one", "three", "two"]
    assert found(admin_client, "o=6") == ["three", "one", "two"]
    # Unknown balances are the lowest.
    assert found(admin_client, "o=7") == ["two", "one", "three"]
    assert found(admin_client, "o=-7") == ["three", "one", "two"]
    newest = ["three", "two", "one"]
    assert found(admin_client, "") == found(admin_client, "o=3") == found(admin_client, "o=99") == newest
    # All but the state: a relayer can be in several.
    sortable = re.findall(r'<a href="\?o=(\w+)"', admin_client.get(LIST).content.decode())
    assert set(sortable) == {"name", "identifier", "network", "shown_address", "balance", "last_check", "created"}


@pytest.mark.postgresql
@pytest.mark.parametrize(
    ("order", "index"), [(BALANCE_ORDER, "health_balance"), (F("health__checked_at"), "health_checked")]
)
def test_the_readings_of_relayers_are_sorted_by_their_index(order: Any, index: str) -> None:
    factories.relayer()
    page = RelayerPaginator(Relayer.objects.order_by(order, "pk"), 50).page(1)
    assert index in plan_of(page.object_list)


@pytest.mark.parametrize("query", ["", "q=r-", "state=unknown&o=7"])
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


def test_a_filter_that_no_database_accepts_is_left_out(admin_client: Client) -> None:
    for path, filters in {
        "relayers/relayer/": "network=%00",
        "signers/signer/": "type__exact=a%00",
        "relayer_service/auditentry/": "object_type=%00",
        "rpc/feetoken/": "state=ok&network=%00",
    }.items():
        answer = admin_client.get(f"/admin/{path}?{filters}")
        assert (answer.status_code, answer["Location"]) == (302, f"/admin/{path}?e=1")
    factories.signer()
    field = {"app_label": "relayers", "model_name": "relayer", "field_name": "signer"}
    found = admin_client.get("/admin/autocomplete/", {**field, "term": "\0"})
    assert found.json() == {"results": [], "pagination": {"more": False}}


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
    viewer = staff_who_may(Client(), "view_relayer")
    assert "Deliveries of this relayer" not in viewer.get(f"{LIST}{relayer.pk}/change/").content.decode()
    assert viewer.get(f"{LIST}{relayer.pk}/deliveries/").status_code == 403
