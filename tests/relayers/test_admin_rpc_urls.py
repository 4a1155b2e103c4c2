"""The admin's editor for RPC URLs: rows that are kept, weighed, replaced, removed and added; URLs stay masked."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from relayers.console.url_rows import GONE, RpcUrlRows
from relayers.models import Relayer
from tests.relayers import factories
from tests.relayers.admin_pages import LIST, A, B, C, change, edit, errors, open_form, read_fields, rpc_url

STORED = [rpc_url(A, 70), rpc_url(B, 30)]
WEIGHT = "a whole number from 0 to 100 is required"
NO_URL = "an absolute http or https URL is required"


def sent(changes: dict[str, str], stored: list[Any], shown: list[Any] | None = None) -> Any:
    """Return the rows of a form that is sent with changes, of a page that showed these URLs."""
    page = RpcUrlRows(None, stored if shown is None else shown, "rpc_urls")
    html = [str(page.management_form), *(str(field) for row in page for field in row)]
    typed = read_fields(f"<form id=page>{''.join(html)}</form>", "page")
    return RpcUrlRows(typed | {f"rpc_urls-{name}": text for name, text in changes.items()}, stored, "rpc_urls")


def merged(rows: Any) -> list[Any]:
    assert rows.is_valid(), rows.errors
    return [entry for entry, _ in rows.merged()]


@pytest.mark.parametrize(
    ("changes", "after"),
    [
        ({}, STORED),
        ({"1-weight": "0"}, [rpc_url(A, 70), rpc_url(B, 0)]),
        ({"0-url": C}, [rpc_url(C, 70), rpc_url(B, 30)]),
        ({"0-url": C, "0-weight": "5"}, [rpc_url(C, 5), rpc_url(B, 30)]),
        ({"0-remove": "on"}, [rpc_url(B, 30)]),
        ({"2-url": C}, [*STORED, rpc_url(C, 100)]),
        ({"2-url": C, "2-weight": "7"}, [*STORED, rpc_url(C, 7)]),
        ({"2-url": C, "2-remove": "on"}, STORED),
        ({"2-weight": "7"}, STORED),
        ({"0-remove": "on", "1-remove": "on"}, []),
    ],
)
def test_urls_are_kept_weighed_replaced_removed_and_added(changes: dict[str, str], after: list[Any]) -> None:
    assert merged(sent(changes, STORED)) == after


def test_the_same_url_twice_is_two_rows() -> None:
    assert merged(sent({"1-remove": "on"}, [rpc_url(A, 70), rpc_url(A, 30)])) == [rpc_url(A, 70)]


@pytest.mark.parametrize(
    ("changes", "faults"),
    [
        ({"0-weight": "101"}, [{"weight": [WEIGHT]}, {}]),
        ({"0-weight": "-1"}, [{"weight": [WEIGHT]}, {}]),
        ({"0-weight": ""}, [{"weight": [WEIGHT]}, {}]),
        ({"0-url": "ftp://a.example.com"}, [{"url": [NO_URL]}, {}]),
        ({"1-url": "https://b.example.com", "1-weight": "x"}, [{}, {"weight": [WEIGHT]}]),
        ({"1-url": "a.example.com"}, [{}, {"url": [NO_URL]}]),
    ],
)
def test_a_fault_of_a_row_is_shown_in_it(changes: dict[str, str], faults: list[dict[str, list[str]]]) -> None:
    assert sent(changes, [rpc_url(A, 70)]).errors == faults


def test_a_form_without_its_rows_is_refused() -> None:
    assert not RpcUrlRows({}, STORED, "rpc_urls").is_valid()


def test_there_are_at_most_50_urls() -> None:
    stored = [rpc_url(f"{A}/{number}") for number in range(49)]
    assert merged(sent({"49-url": B}, stored)) == [*stored, rpc_url(B)]
    added = {"TOTAL_FORMS": "51", "49-url": B, "50-url": C, "49-weight": "100", "50-weight": "100"}
    assert sent(added, stored).non_form_errors()[-1] == "at most 50 URLs are allowed"


def test_urls_that_others_added_or_removed_meanwhile_stay_so() -> None:
    shown = [rpc_url(A, 70)]
    added, replaced = [rpc_url(C, 1), rpc_url(A, 70)], [rpc_url(B, 70)]
    assert merged(sent({"0-weight": "5"}, added, shown)) == [rpc_url(C, 1), rpc_url(A, 5)]
    assert merged(sent({}, replaced, shown)) == replaced
    assert sent({"0-weight": "5"}, replaced, shown).errors == [{"url": [GONE]}, {}]


@pytest.mark.usefixtures("no_node")
def test_public_and_private_nodes_are_stored_each_from_its_own_rows(admin_client: Client) -> None:
    relayer = factories.relayer(rpc_urls=STORED)
    rows = {"rpc_urls-0-remove": "on", "rpc_urls-1-weight": "0"}
    edit(admin_client, relayer, **rows, **{"private_urls-0-url": C, "private_fallback_blocks": "30"})
    relayer.refresh_from_db()
    assert (relayer.custom_rpc_urls, relayer.private_rpc_urls) == ([rpc_url(B, 0)], [rpc_url(C)])
    assert relayer.masked_rpc_urls == [rpc_url("https://b.example.com/***", 0)]
    assert relayer.private_fallback_blocks == 30
    page = admin_client.get(change(relayer)).content.decode()
    assert (f"{C[:21]}/***" in page, C in page) == (True, False)

    refused = edit(admin_client, relayer, **{"private_fallback_blocks": "0", "rpc_urls-0-weight": "x"})
    assert errors(refused) == {
        "private_fallback_blocks": ["Ensure this value is greater than or equal to 1."],
        "rpc_urls": ["Correct the marked rows."],
    }
    removed = {"private_urls-0-remove": "on", "rpc_urls-0-remove": "on", "private_fallback_blocks": ""}
    edit(admin_client, relayer, **removed)
    stored = Relayer.objects.get()
    assert (stored.private_rpc_urls, stored.masked_private_rpc_urls) == (None, [])
    assert (stored.custom_rpc_urls, stored.masked_rpc_urls, stored.private_fallback_blocks) == (None, [], None)


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
