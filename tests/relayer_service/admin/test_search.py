"""The search in all lists: what has a text in it, of what the person may view."""

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


def test_an_object_is_found_by_id_name_and_address(admin_client: Client, fleet: dict[str, Any]) -> None:
    kinds = {"relayer": "relayers/relayer", "token": "tokens/accesstoken", "delivery": "notifications/delivery"}
    links = {name: link(kind, fleet[name]) for name, kind in kinds.items()}
    links["notification"] = link("notifications/notification", fleet["notification"])
    key = fleet["token"].key
    for text, name in {
        "ROLL OF": "relayer",
        factories.ADDRESS[:12].lower(): "relayer",
        "msg_0123": "delivery",
        "hooks.example.com/s3c": "notification",
        # Of a token, what is public, whatever follows it.
        "deploy": "token",
        f"rms_{key[:5]}": "token",
        f"rms_{key}_…": "token",
        f"rms_{key}_whatever-is-secret": "token",
        key: "token",
    }.items():
        assert [where for where, _ in found(admin_client, text)] == [links[name]], text
    assert sorted(found(admin_client, "EU")) == [
        (links["notification"], "eu-hook"),
        (links["relayer"], "eu-relayer"),
        (links["token"], str(fleet["token"])),
    ]
    # What was found a moment ago is searched anew.
    factories.relayer(identifier="eu-relayer-2")
    assert len(found(admin_client, "eu-r")) == 2


def test_staff_find_what_they_may_view_alone(client: Client, fleet: dict[str, Any]) -> None:
    viewer = staff_who_may(client, "view_notification")
    assert found(viewer, "eu") == [(link("notifications/notification", fleet["notification"]), "eu-hook")]
    # They see no whole URL, so that they cannot guess one either.
    assert found(viewer, "hooks.example.com/s3c") == found(viewer, "s3cret") == []
    assert Client().get(SEARCH, {"s": "eu"}).status_code == 302


def test_a_search_without_results_shows_a_message(admin_client: Client) -> None:
    page = admin_client.get(SEARCH, {"extended": "1", "s": "<b>none"}).content.decode()
    # The theme's script takes over this element alone.
    assert 'id="command-results-list"' in page
    assert "No ID, name or address matches “&lt;b&gt;none”." in page
    assert [admin_client.get(SEARCH, {"s": text}).content for text in (" ", "\0")] == [b"", b""]


def test_of_many_the_first_are_shown_and_lists_are_found_by_name(admin_client: Client) -> None:
    for number in range(7):
        factories.relayer(identifier=f"many-{number}")
    *first, all_of_them = found(admin_client, "many")
    assert [name for _, name in first] == [f"many-{number}" for number in range(5)]
    assert all_of_them == ("/admin/relayers/relayer/?q=many", "All relayers that match many")


def test_pages_are_found_by_their_names_and_objects_in_the_order_of_the_sidebar(
    admin_client: Client, client: Client, settings: Any
) -> None:
    settings.EXTENSIONS = ["transactions"]
    lists = [("/admin/rpc/feetoken/", "Fee tokens"), ("/admin/tokens/accesstoken/", "Access tokens")]
    assert found(admin_client, "toke") == lists
    for name, page in {
        "Audit log": "/admin/relayer_service/auditentry/",
        "Alert routes": "/admin/incidents/alertroute/",
        "Gas spent": "/admin/transactions/transaction/gas/",
        "Runbooks": "/admin/incidents/incident/runbooks/",
        "API docs": "/api/docs",
        "Your account": "/admin/account/",
    }.items():
        assert found(admin_client, name.lower()) == [(page, name)]
    viewer = staff_who_may(client, "view_relayer")
    assert [found(viewer, name) for name in ("audit log", "gas spent", "alert routes")] == [[], [], []]
    signer = factories.signer(f"of {factories.ADDRESS}")
    relayer = factories.relayer(signer=signer)
    both = [link("relayers/relayer", relayer), link("signers/signer", signer)]
    assert [where for where, _ in found(admin_client, factories.ADDRESS[:12])] == both
