"""Saved filters and chosen columns of a list, which each user has for themselves."""

import re
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from relayer_service.console.lists import preferences
from relayer_service.models import ListPreference
from relayers.admin import RelayerAdmin
from tests.notifications.admin_pages import rows, staff_who_may, told
from tests.relayers import factories
from tests.transactions import factories as sending

pytestmark = [pytest.mark.django_db, pytest.mark.both_engines]

LIST = "/admin/relayers/relayer/"
TRANSACTIONS = "/admin/transactions/transaction/"
DEFAULT = [
    *("name", "identifier", "state", "network", "shown_signer", "shown_address", "balance", "runway"),
    *("last_check", "last_transaction", "created"),
]


@pytest.fixture(autouse=True)
def transactions(settings: Any) -> None:
    settings.EXTENSIONS = ["transactions"]


def save(client: Client, query: str, name: str, path: str = LIST) -> Any:
    return client.post(f"{path}preferences/?{query}", {"name": name, "save": ""}, follow=True)


def show(client: Client, *columns: str, path: str = LIST) -> Any:
    return client.post(f"{path}preferences/", {"columns": columns, "show": ""}, follow=True)


def saved(page: Any) -> list[tuple[str, str, bool]]:
    """The saved filters of a list: name, query, and whether it is the current one."""
    links = re.findall(r'<li><a href="([^"]*)"( aria-current="page")?>(.*?)</a><button', page.content.decode())
    return [(unescape(name), unescape(query), bool(current)) for query, current, name in links]


def columns(page: Any) -> list[str]:
    """The columns of a list that has rows."""
    return re.findall(r"\bcolumn-(\w+)", page.content.decode().partition("<tbody")[0])


def test_a_filter_is_saved_under_a_name_replaced_and_deleted(admin_client: Client) -> None:
    for network in ("mainnet", "my chain", "sepolia"):
        factories.relayer(identifier=network, network=network, chain_id=None)
    assert "Save filter" not in admin_client.get(f"{LIST}?state=&p=1").content.decode()
    current = "state=unknown&q=ain&network=my+chain&network=mainnet&problem=&o=-name&p=1&e=1"
    page = save(admin_client, current, "<b> & ü")
    # Back on the page that it was saved from.
    assert page.redirect_chain == [(f"{LIST}?{current}", 302)]
    query = "?network=mainnet&network=my+chain&o=-name&q=ain&state=unknown"
    assert saved(page) == [("<b> & ü", query, True)]
    assert "<b> &" not in page.content.decode()
    page = admin_client.get(f"{LIST}{query}")
    assert sorted(row[1] for row in rows(page)) == ["mainnet", "my chain"]
    assert saved(admin_client.get(LIST)) == [("<b> & ü", query, False)]

    save(admin_client, "network=sepolia", "All of sepolia")
    page = save(admin_client, "network=mainnet", "<b> & ü")
    assert saved(page) == [("<b> & ü", "?network=mainnet", True), ("All of sepolia", "?network=sepolia", False)]
    page = admin_client.post(f"{LIST}preferences/?p=1", {"delete": "<b> & ü"}, follow=True)
    assert saved(page) == [("All of sepolia", "?network=sepolia", False)]
    # Another list has its own.
    assert saved(admin_client.get("/admin/signers/signer/")) == []


def test_what_a_user_keeps_is_their_own_and_goes_with_them(admin_client: Client) -> None:
    factories.relayer(identifier="ab")
    save(admin_client, "q=a", "Mine")
    show(admin_client, "identifier")
    other = staff_who_may(Client(), "view_relayer", "view_signer")
    assert saved(save(other, "q=b", "Hers")) == [("Hers", "?q=b", True)]
    assert saved(other.post(f"{LIST}preferences/", {"delete": "Mine"}, follow=True)) == [("Hers", "?q=b", False)]
    assert columns(other.get(LIST)) == [name for name in DEFAULT if name != "last_transaction"]
    page = admin_client.get(LIST)
    # Narrow windows hide none of them.
    shown = [b"data-chosen-columns" in each.content for each in (page, other.get(LIST))]
    assert shown == [True, False]
    assert (saved(page), columns(page)) == ([("Mine", "?q=a", False)], ["name", "identifier"])
    User.objects.get(username="vera").delete()
    assert ListPreference.objects.get().user.username == "admin"


def test_only_who_may_view_a_list_posts_to_it(admin_client: Client) -> None:
    assert admin_client.get(f"{LIST}preferences/").status_code == 405
    other = staff_who_may(Client(), "view_signer")
    assert other.post(f"{LIST}preferences/?q=b", {"name": "Hers", "save": ""}).status_code == 403
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(User.objects.get(username="admin"))
    assert strict.post(f"{LIST}preferences/?q=b", {"name": "Forged", "save": ""}).status_code == 403
    assert not ListPreference.objects.exists()


def test_saved_filters_are_limited(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preferences, "MAX_FILTERS", 2)
    for name in ("a", "b"):
        save(admin_client, "q=x", name)
    page = save(admin_client, "q=y", "c")
    refused = "The filter is not saved."
    assert told(page)[-1] == f"{refused} There are 2 saved filters, the maximum. Delete one first."
    # One with the same name is replaced.
    expected = [("a", "?q=x", False), ("b", "?q=y", True)]
    assert saved(save(admin_client, "q=y", "b")) == expected
    for query, name in (("q=y", 51 * "a"), ("q=y", "a\0"), ("q=y", " "), ("", "a"), (f"q={2_000 * 'y'}", "a")):
        assert told(save(admin_client, query, name))[-1].startswith(refused)
    assert saved(admin_client.get(f"{LIST}?q=y")) == expected


def test_a_saved_filter_only_has_what_its_list_accepts(admin_client: Client) -> None:
    """Check a filter that a later release has removed, a URL, and what belongs to a popup."""
    query = "q=a&removed=1&_popup=1&next=https://evil.example&signer__name=x&all="
    admin_client.post(f"{LIST}preferences/?{query}", {"name": "Old", "save": ""})
    [row] = ListPreference.objects.all()
    assert row.filters == {"Old": "q=a"}
    ListPreference.objects.update(
        filters={"Old": "q=a&removed=1", "URL": "//evil.example/?q=b"}, columns={"removed": True, "name": False}
    )
    factories.relayer(identifier="a-1")
    page = admin_client.get(f"{LIST}?q=a")
    assert saved(page) == [("Old", "?q=a", True), ("URL", "?", False)]
    assert columns(page) == DEFAULT
    page = save(admin_client, "q=//evil.example", "Slashes")
    assert page.redirect_chain == [(f"{LIST}?q=%2F%2Fevil.example", 302)]


def test_columns_are_hidden_added_and_reset(admin_client: Client) -> None:
    relayer = factories.relayer()
    assert columns(show(admin_client, "state", "created", "no such column")) == ["name", "state", "created"]
    [cells] = rows(admin_client.get(LIST))
    assert len(cells) == 3
    assert relayer.identifier not in cells
    text = admin_client.get(LIST).content.decode()
    assert re.findall(r'name="columns" value="(\w+)"[^>]* checked>', text) == ["state", "created"]
    # The first has the link, and is no choice.
    assert 'name="columns" value="name"' not in text
    # A popup has the default columns, and nothing to choose.
    popup = admin_client.get(f"{LIST}?_popup=1")
    assert columns(popup) == DEFAULT
    assert "preferences/" not in popup.content.decode()
    assert columns(admin_client.post(f"{LIST}preferences/", {"reset": ""}, follow=True)) == DEFAULT

    row = sending.transaction(sending.lane(relayer), external_id="order-7", idempotency_key="k-7", requested_by="Shop")
    page = admin_client.get(TRANSACTIONS)
    assert "order-7" not in rows(page)[0]
    extra = ["shown_external_id", "shown_key", "shown_requester", "finished"]
    page = show(admin_client, "created", *extra, path=TRANSACTIONS)
    assert columns(page) == ["identifier", "created", *extra]
    assert rows(page)[0] == [row.identifier, f"{row.created_at:%Y-%m-%d %H:%M} UTC", "order-7", "k-7", "Shop", "-"]


def test_new_columns_of_a_later_release_are_shown(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    factories.relayer()
    show(admin_client, "identifier", "state")
    monkeypatch.setattr(RelayerAdmin, "list_display", ["name", "address", *RelayerAdmin.list_display[1:]])
    assert columns(admin_client.get(LIST)) == ["name", "address", "identifier", "state"]


def test_a_list_is_sorted_by_the_same_column_whichever_are_shown(admin_client: Client) -> None:
    for name in "bca":
        factories.relayer(identifier=name, name=name, network={"a": "y", "b": "z", "c": "x"}[name], chain_id=None)

    def order(query: str) -> list[str]:
        return [row[0] for row in rows(admin_client.get(f"{LIST}?{query}"))]

    def links() -> list[str]:
        return re.findall(r'<a href="\?o=([^"]*)"', admin_client.get(LIST).content.decode())

    newest = ["a", "c", "b"]
    assert set(links()) == {"name", "identifier", "network", "shown_address", "balance", "last_check", "created"}
    for chosen in (["identifier", "state", "network"], ["network"], ["balance"]):
        show(admin_client, *chosen)
        # By name; by the number of a default column, as in older links; and by a column that is hidden.
        assert order("o=network") == order("o=4") == ["c", "a", "b"]
        assert order("o=-network") == order("o=-4.1") == ["b", "a", "c"]
        # Not sortable, unknown, or none.
        assert order("o=3") == order("o=state") == order("o=99") == order("o=-") == order("") == newest
    show(admin_client, "network")
    assert links() == ["name", "network"]
    page = admin_client.get(f"{LIST}?o=network").content.decode()
    assert re.findall(r"column-(\w+) sorted (\w+)", page) == [("network", "ascending")]
    assert 'href="?o=-network"' in page


def test_an_action_on_all_rows_is_that_of_the_list_whichever_columns_are_shown(admin_client: Client) -> None:
    for name in "bca":
        factories.relayer(identifier=name, name=name, network={"a": "y", "b": "z", "c": "x"}[name], chain_id=None)
    form = {"action": "pause_selected", "_selected_action": "1", "select_across": "1", "index": "0"}

    def selected() -> tuple[Any, Any]:
        page = admin_client.post(f"{LIST}?o=network&network=x&network=z", form)
        return page.context["hidden"], page.context["table"].rows

    before = selected()
    assert len(before[1]) == 2
    show(admin_client, "state")
    assert selected() == before


def test_a_list_reads_preferences_once_and_nothing_for_hidden_columns(admin_client: Client) -> None:
    sending.transaction(sending.lane(factories.relayer()))

    def queries(path: str) -> list[str]:
        with CaptureQueriesContext(connection) as found:
            admin_client.get(path)
        return [query["sql"] for query in found]

    saved_queries = {}
    for path in (LIST, TRANSACTIONS, "/admin/transactions/lane/"):
        before = queries(path)
        assert sum("listpreference" in sql for sql in before) == 1
        show(admin_client, path=path)
        saved_queries[path] = len(before) - len(queries(path))
    # Last transactions; token calls; numbers of transactions in flight and queued.
    assert saved_queries == {LIST: 1, TRANSACTIONS: 1, "/admin/transactions/lane/": 2}
