"""The admin's editor for RPC URLs: rows that are kept, weighed, replaced, removed and added; URLs stay masked."""

from __future__ import annotations

import pytest
from django.test import Client
from pytest_django import Settings

from chain.nodes import failover
from relayers.models import Relayer
from tests.relayers import factories
from tests.relayers.admin_pages import LIST, A, B, C, change, edit, errors, open_form, row_errors, rpc_url

pytestmark = pytest.mark.django_db


@pytest.fixture
def no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every node is on the chain that is expected of it: these tests are about rows."""
    monkeypatch.setattr(failover, "chain_ids", lambda urls: [11155111 for _ in urls])


@pytest.mark.usefixtures("no_node")
@pytest.mark.parametrize(
    ("changes", "after"),
    [
        ({}, [(A, 70), (B, 30)]),
        ({"rpc_urls-1-weight": "0"}, [(A, 70), (B, 0)]),
        ({"rpc_urls-0-url": C}, [(C, 70), (B, 30)]),
        ({"rpc_urls-0-url": C, "rpc_urls-0-weight": "5"}, [(C, 5), (B, 30)]),
        ({"rpc_urls-0-remove": "on"}, [(B, 30)]),
        ({"rpc_urls-2-url": C}, [(A, 70), (B, 30), (C, 100)]),
        ({"rpc_urls-2-url": C, "rpc_urls-2-weight": "7"}, [(A, 70), (B, 30), (C, 7)]),
        ({"rpc_urls-2-url": C, "rpc_urls-2-remove": "on"}, [(A, 70), (B, 30)]),
        ({"rpc_urls-2-weight": "7"}, [(A, 70), (B, 30)]),
        ({"rpc_urls-0-remove": "on", "rpc_urls-1-remove": "on"}, []),
    ],
)
def test_urls_are_kept_weighed_replaced_removed_and_added(
    admin_client: Client, changes: dict[str, str], after: list[tuple[str, int]]
) -> None:
    relayer = factories.relayer(rpc_urls=[rpc_url(A, 70), rpc_url(B, 30)])
    edit(admin_client, relayer, **changes)
    relayer.refresh_from_db()
    assert relayer.custom_rpc_urls == ([rpc_url(*entry) for entry in after] or None)
    assert relayer.masked_rpc_urls == [rpc_url(f"{url[:21]}/***", weight) for url, weight in after]


@pytest.mark.usefixtures("no_node")
def test_private_nodes_have_rows_of_their_own(admin_client: Client) -> None:
    relayer = factories.relayer(rpc_urls=[rpc_url(A, 70)])
    edit(admin_client, relayer, **{"private_urls-0-url": B, "private_fallback_blocks": "30"})
    relayer.refresh_from_db()
    assert (relayer.custom_rpc_urls, relayer.private_rpc_urls) == ([rpc_url(A, 70)], [rpc_url(B)])
    assert relayer.private_fallback_blocks == 30
    page = admin_client.get(change(relayer)).content.decode()
    assert (f"{B[:21]}/***" in page, B in page) == (True, False)

    refused = edit(admin_client, relayer, private_fallback_blocks="0")
    assert errors(refused) == {
        "private_fallback_blocks": ["Ensure this value is greater than or equal to 1."],
    }
    edit(admin_client, relayer, **{"private_urls-0-remove": "on", "private_fallback_blocks": ""})
    relayer.refresh_from_db()
    assert (relayer.private_rpc_urls, relayer.masked_private_rpc_urls) == (None, [])
    assert relayer.private_fallback_blocks is None


@pytest.mark.usefixtures("no_node")
def test_the_same_url_twice_is_two_rows(admin_client: Client) -> None:
    relayer = factories.relayer(rpc_urls=[rpc_url(A, 70), rpc_url(A, 30)])
    edit(admin_client, relayer, **{"rpc_urls-1-remove": "on"})
    relayer.refresh_from_db()
    assert relayer.custom_rpc_urls == [rpc_url(A, 70)]


WEIGHT = "a whole number from 0 to 100 is required"


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("changes", "faults"),
    [
        ({"rpc_urls-0-weight": "101"}, [{"weight": [WEIGHT]}, {}]),
        ({"rpc_urls-0-weight": "-1"}, [{"weight": [WEIGHT]}, {}]),
        ({"rpc_urls-0-weight": "1.5"}, [{"weight": [WEIGHT]}, {}]),
        ({"rpc_urls-0-weight": ""}, [{"weight": [WEIGHT]}, {}]),
        ({"rpc_urls-0-url": "ftp://a.example.com"}, [{"url": ["an absolute http or https URL is required"]}, {}]),
        ({"rpc_urls-1-url": "https://b.example.com", "rpc_urls-1-weight": "x"}, [{}, {"weight": [WEIGHT]}]),
        ({"rpc_urls-1-url": "a.example.com"}, [{}, {"url": ["an absolute http or https URL is required"]}]),
        (
            {"rpc_urls-1-url": "https://a.example.com/a b"},
            [{}, {"url": ["spaces, backslashes and control characters are not allowed in a URL"]}],
        ),
    ],
)
def test_a_fault_of_a_row_is_shown_in_it(
    admin_client: Client, changes: dict[str, str], faults: list[dict[str, list[str]]]
) -> None:
    relayer = factories.relayer(rpc_urls=[rpc_url(A, 70)])
    page = edit(admin_client, relayer, **changes)
    assert row_errors(page) == faults
    assert errors(page) == {"rpc_urls": ["Correct the marked rows."]}
    relayer.refresh_from_db()
    assert relayer.custom_rpc_urls == [rpc_url(A, 70)]


@pytest.mark.one_engine
def test_a_form_without_its_rows_is_refused(admin_client: Client) -> None:
    relayer = factories.relayer(rpc_urls=[rpc_url(A, 70)])
    sent = open_form(admin_client, change(relayer))
    page = admin_client.post(change(relayer), {name: text for name, text in sent.items() if "rpc_urls" not in name})
    assert list(errors(page)) == ["rpc_urls"]
    relayer.refresh_from_db()
    assert relayer.custom_rpc_urls == [rpc_url(A, 70)]


@pytest.mark.usefixtures("no_node")
def test_there_are_at_most_50_urls(admin_client: Client) -> None:
    relayer = factories.relayer(rpc_urls=[rpc_url(f"{A}/{number}") for number in range(49)])
    rows = {f"rpc_urls-{number}-weight": "100" for number in (49, 50)} | {"rpc_urls-TOTAL_FORMS": "51"}
    page = edit(admin_client, relayer, **rows, **{"rpc_urls-49-url": B, "rpc_urls-50-url": C})
    assert errors(page) == {"rpc_urls": ["at most 50 URLs are allowed", "Correct the marked rows."]}
    assert edit(admin_client, relayer, **{"rpc_urls-49-url": B}).redirect_chain


@pytest.mark.usefixtures("no_node")
def test_a_url_that_was_added_concurrently_stays(admin_client: Client) -> None:
    relayer = factories.relayer(rpc_urls=[rpc_url(A, 70)])
    sent = open_form(admin_client, change(relayer))
    relayer.set_rpc_urls([rpc_url(C, 1), rpc_url(A, 70)])
    relayer.save()
    admin_client.post(change(relayer), sent | {"rpc_urls-0-weight": "5"})
    relayer.refresh_from_db()
    assert relayer.custom_rpc_urls == [rpc_url(C, 1), rpc_url(A, 5)]


@pytest.mark.usefixtures("no_node")
@pytest.mark.parametrize(
    ("changes", "faults"),
    [
        ({"name": "Another name"}, []),
        (
            {"rpc_urls-0-weight": "5"},
            [{"url": ["This URL was replaced or removed concurrently. Reload the page."]}, {}],
        ),
    ],
)
def test_a_url_that_was_removed_concurrently_cannot_be_changed(
    admin_client: Client, changes: dict[str, str], faults: list[dict[str, list[str]]]
) -> None:
    relayer = factories.relayer(rpc_urls=[rpc_url(A, 70)])
    sent = open_form(admin_client, change(relayer))
    relayer.set_rpc_urls([rpc_url(B, 70)])
    relayer.save()
    page = admin_client.post(change(relayer), sent | changes)
    assert (row_errors(page) if page.context else []) == faults
    relayer.refresh_from_db()
    assert relayer.custom_rpc_urls == [rpc_url(B, 70)]


@pytest.mark.usefixtures("no_node")
def test_a_url_that_is_set_is_on_no_page_not_even_after_a_mistake(admin_client: Client) -> None:
    relayer = factories.relayer(rpc_urls=[rpc_url(A)])
    mistake = {"name": "", "rpc_urls-0-weight": "5"}
    wrong = admin_client.post(change(relayer), open_form(admin_client, change(relayer)) | mistake)
    assert errors(wrong) != {}
    edit(admin_client, relayer, **{"rpc_urls-0-url": B})
    pages = [wrong, *(admin_client.get(path) for path in (LIST, change(relayer), f"{LIST}{relayer.pk}/history/"))]
    for page in pages:
        assert "key-of-" not in page.content.decode()
    assert "https://a.example.com/***" in wrong.content.decode()
    assert "https://b.example.com/***" in pages[2].content.decode()
    assert "custom_rpc_urls: " in pages[3].content.decode()


@pytest.mark.usefixtures("no_node")
def test_urls_that_cannot_be_opened_are_kept_or_replaced(admin_client: Client, settings: Settings) -> None:
    relayer = factories.relayer(rpc_urls=[rpc_url(A)])
    before = Relayer.objects.values_list("custom_rpc_urls", flat=True).get()
    settings.ENCRYPTION_KEYS = {"2": bytes(range(50, 82))}
    text = admin_client.get(change(relayer)).content.decode()
    assert "The stored URLs cannot be decrypted: https://a.example.com/***." in text
    edit(admin_client, relayer, name="Another name")
    assert Relayer.objects.values_list("name", "custom_rpc_urls").get() == ("Another name", before)
    edit(admin_client, relayer, **{"rpc_urls-0-url": B})
    relayer.refresh_from_db()
    assert relayer.custom_rpc_urls == [rpc_url(B)]
