"""The search in all lists: what has a text in it, of what the person may view."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from notifications.models import Delivery
from tests.notifications.admin_pages import staff_who_may
from tests.notifications.factories import create_notification
from tests.relayers import factories
from tokens.writes import issue

pytestmark = pytest.mark.django_db

SEARCH = "/admin/search/"


def found(client: Client, text: str) -> list[tuple[str, str]]:
    """What the palette lists: where each leads to, and what it is called."""
    page = client.get(SEARCH, {"extended": "1", "s": text}).content.decode()
    return re.findall(r'href="([^"]+)"\s+data-title="([^"]+)"', page)


@pytest.fixture
def fleet(admin_user: User) -> dict[str, Any]:
    relayer = factories.relayer(identifier="eu-relayer", name="Payroll of Europe")
    notification = create_notification(identifier="eu-hook", url="https://hooks.example.com/s3cret")
    delivery = Delivery.objects.create(
        notification=notification, identifier="msg_0123", event="relayer.paused", state="failed", body=b"{}"
    )
    token, _ = issue(name="EU deployment", user=admin_user)
    return {"relayer": relayer, "notification": notification, "delivery": delivery, "token": token}


def link(kind: str, row: Any) -> str:
    return f"/admin/{kind}/{row.pk}/change/"


def test_one_text_finds_every_kind_of_object(admin_client: Client, fleet: dict[str, Any]) -> None:
    assert sorted(found(admin_client, "EU")) == [
        (link("notifications/notification", fleet["notification"]), "eu-hook"),
        (link("relayers/relayer", fleet["relayer"]), "eu-relayer"),
        (link("tokens/accesstoken", fleet["token"]), str(fleet["token"])),
    ]


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("payroll of", "relayers/relayer", "relayer"),
        ("ROLL OF", "relayers/relayer", "relayer"),
        ("deploy", "tokens/accesstoken", "token"),
        (factories.ADDRESS[:12].lower(), "relayers/relayer", "relayer"),
        ("msg_0123", "notifications/delivery", "delivery"),
        ("hooks.example.com/s3c", "notifications/notification", "notification"),
    ],
)
def test_an_object_is_found_by_id_name_and_address(
    admin_client: Client, fleet: dict[str, Any], text: str, kind: str, name: str
) -> None:
    assert [where for where, _ in found(admin_client, text)] == [link(kind, fleet[name])]


def test_a_token_is_found_by_what_is_public_of_it(admin_client: Client, fleet: dict[str, Any]) -> None:
    token = fleet["token"]
    for text in (f"rms_{token.key[:5]}", f"rms_{token.key}_…", f"rms_{token.key}_whatever-is-secret", token.key):
        assert found(admin_client, text) == [(link("tokens/accesstoken", token), str(token))]


def test_staff_find_what_they_may_view_alone(client: Client, fleet: dict[str, Any]) -> None:
    viewer = staff_who_may(client, "view_notification")
    assert found(viewer, "eu") == [(link("notifications/notification", fleet["notification"]), "eu-hook")]
    # They see no whole URL, so that they cannot guess one either.
    assert found(viewer, "hooks.example.com/s3c") == found(viewer, "s3cret") == []
    assert Client().get(SEARCH, {"s": "eu"}).status_code == 302


def test_a_search_without_results_shows_a_message(admin_client: Client, fleet: dict[str, Any]) -> None:
    page = admin_client.get(SEARCH, {"extended": "1", "s": "<b>none"}).content.decode()
    # The theme's script takes over this element alone.
    assert 'id="command-results-list"' in page
    assert "No ID, name or address matches “&lt;b&gt;none”." in page
    assert "No relayer matches the search" in admin_client.get("/admin/relayers/relayer/?q=none").content.decode()
    assert admin_client.get(SEARCH, {"s": " "}).content == b""
    assert admin_client.get(SEARCH, {"s": "\0"}).content == b""


def test_what_was_found_a_moment_ago_is_searched_anew(admin_client: Client, fleet: dict[str, Any]) -> None:
    assert len(found(admin_client, "eu-r")) == 1
    factories.relayer(identifier="eu-relayer-2")
    assert len(found(admin_client, "eu-r")) == 2


def test_of_many_the_first_are_shown_and_the_list_of_all_is_linked(admin_client: Client) -> None:
    for number in range(7):
        factories.relayer(identifier=f"many-{number}")
    *first, all_of_them = found(admin_client, "many")
    assert [name for _, name in first] == [f"many-{number}" for number in range(5)]
    assert all_of_them == ("/admin/relayers/relayer/?q=many", "All relayers that match many")


def test_a_list_is_found_by_the_words_of_its_name(admin_client: Client) -> None:
    assert found(admin_client, "deliv") == [("/admin/notifications/delivery/", "Deliveries")]
    assert found(admin_client, "toke") == [
        ("/admin/tokens/accesstoken/", "Access tokens"),
        ("/admin/rpc/feetoken/", "Fee tokens"),
    ]
