"""The pages for what is refused or missing, and forms that somebody may not fill in."""

import re

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils.html import strip_tags

from tests.relayers import admin_pages, factories
from tests.relayers.admin_pages import LIST


@pytest.fixture
def staff_client(client: Client, user: User) -> Client:
    """A client of staff who have no permission yet."""
    User.objects.update(is_staff=True)
    client.force_login(user)
    return client


def permit(user: User, *codenames: str) -> None:
    user.user_permissions.add(*Permission.objects.filter(codename__in=codenames))


def said(client: Client, path: str, status: int) -> list[str]:
    """Return what a page says in its main part, and where it leads."""
    answer = client.get(path)
    assert answer.status_code == status
    page = answer.content.decode()
    (main,) = re.findall(r"<main.*?</main>", page, re.DOTALL)
    links = re.findall(r'href="([^"]*)"', main)
    texts = re.findall(r"<(?:h2|p)\b.*?</(?:h2|p)>", main, re.DOTALL)
    return [*(" ".join(strip_tags(text).split()) for text in texts), *links]


def test_a_filter_that_a_list_does_not_have_is_400_with_a_link_back(admin_client: Client) -> None:
    assert said(admin_client, f"{LIST}?policies__contains=1", 400) == [
        "Bad request (400)",
        "The URL or the form has a filter or a value that this page does not accept. Nothing was changed.",
        "/admin/",
    ]


def test_a_host_that_is_not_served_is_named_as_the_reason(client: Client) -> None:
    answer = client.get("/admin/", headers={"Host": "other.example.org"})
    assert answer.status_code == 400
    assert answer.content.decode() == "The service does not serve this host name. Add it to ALLOWED_HOSTS."


def test_a_missing_page_or_object_is_404_with_a_link_back(admin_client: Client) -> None:
    assert said(admin_client, "/admin/no-such-page/", 404) == [
        "Not found (404)",
        "There is no page at /admin/no-such-page/.",
        "/admin/",
    ]
    assert said(admin_client, "/admin/notifications/delivery/add/", 403) == [
        "Not allowed (403)",
        "Adding deliveries is not allowed in the admin.",
        "/admin/notifications/delivery/",
        "/admin/",
    ]
    # A visitor sees no menu.
    answer = Client().get("/no-such-page")
    assert (answer.status_code, b"nav-sidebar" in answer.content) == (404, False)
    assert b"There is no page at /no-such-page." in answer.content
    for view in ("change", "history", "status"):
        assert said(admin_client, f"{LIST}999/{view}/", 404) == [
            "Not found (404)",
            "There is no relayer at this URL. It may have been deleted.",
            LIST,
            "/admin/",
        ]


def test_a_refused_page_names_the_permission_that_is_missing(staff_client: Client, user: User) -> None:
    relayer = f"{LIST}{factories.relayer(notification=factories.notification()).pk}"

    def refused(path: str, missing: str, role: str, *links: str) -> None:
        # The first role that has it.
        why = f"You need the permission {missing}. Ask an owner for the role {role}, or a superuser to grant it."
        assert said(staff_client, path, 403) == ["Not allowed (403)", why, *links, "/admin/"]

    view, signer = "“Can view relayer” (relayers.view_relayer)", "“Can view signer” (signers.view_signer)"
    refused(LIST, view, "Viewer")
    refused(f"{relayer}/change/", view, "Viewer")
    refused(f"{LIST}add/", f"“Can add relayer” (relayers.add_relayer) and {signer}", "Manager")
    permit(user, "view_relayer", "add_relayer")
    refused(f"{relayer}/pause/", "“Can pause and resume relayers” (relayers.pause_relayer)", "Operator", LIST)
    refused(f"{LIST}add/", signer, "Viewer", LIST)
    assert f"{LIST}add/" not in staff_client.get(LIST).content.decode()
    permit(user, "view_signer")
    assert f"{LIST}add/" in staff_client.get(LIST).content.decode()
    page = staff_client.get(f"{LIST}add/").content.decode()
    assert "Requires the permission “Can view webhook” (notifications.view_notification)." in page
    assert re.findall(r'<select name="(\w+)"[^>]* disabled[ >]', page) == ["notification"]


def test_a_form_without_its_cookie_reports_that_nothing_was_changed(user: User) -> None:
    User.objects.update(is_staff=True)
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    answer = client.post("/admin/password_change/", {})
    assert answer.status_code == 403
    assert "Nothing was changed: the form was sent without its cookie" in answer.content.decode()


def test_what_may_not_be_chosen_stays_as_it_is(staff_client: Client, user: User) -> None:
    permit(user, "view_relayer", "change_relayer")
    relayer = factories.relayer(notification=factories.notification())
    other = factories.notification("hook-2")
    admin_pages.edit(staff_client, relayer, notification=other.pk, signer="", name="Renamed")
    relayer.refresh_from_db()
    assert (relayer.name, str(relayer.notification), str(relayer.signer)) == ("Renamed", "hook-1", "signer-1")
