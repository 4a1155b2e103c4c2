"""Invitations: a link that sets the password of a new user, once."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from relayer_service.console.sign_in import invitations
from tests.relayer_service.sign_in.signing_in import PASSWORD, recorded, sign_in

USERS = "/admin/auth/user/"


@pytest.fixture
def ada(db: None) -> User:
    user = User.objects.create(username="ada", is_staff=True)
    user.set_unusable_password()
    user.save()
    return user


def invited(admin_client: Client, user: User) -> str:
    """Return a new link, without its host."""
    page = admin_client.post(f"{USERS}{user.pk}/invite/")
    assert page["Cache-Control"].startswith("no-store")
    (path,) = re.findall(r"http://testserver(/admin/login/invitation/[^<]+)", page.text)
    return str(path)


def accept(path: str, password: str = PASSWORD) -> Any:
    """Open a link and set a password; return the page or the redirect."""
    client = Client()
    form = client.get(path, follow=True)
    place = form.redirect_chain[-1][0] if form.redirect_chain else path
    # The token is not in the URL of the form.
    assert "token" not in place or not form.context["validlink"]
    return client.post(place, {"new_password1": password, "new_password2": password})


def test_a_link_sets_a_password_once(admin_client: Client, ada: User) -> None:
    assert "Create invitation link" in admin_client.get(f"{USERS}{ada.pk}/change/").text
    asked = admin_client.get(f"{USERS}{ada.pk}/invite/")
    assert "Earlier links to ada end." in asked.text
    path = invited(admin_client, ada)
    assert accept(path, "short").context["form"].errors
    assert accept(path)["Location"] == "/admin/login/"
    assert sign_in("ada")["Location"] == "/admin/"
    assert recorded() == [
        ("admin", "ada", "127.0.0.1", "Invited"),
        ("", "ada", "127.0.0.1", "Accepted the invitation"),
        ("ada", "ada", "198.51.100.7", "Signed in"),
    ]
    assert "has expired, was used or withdrawn" in Client().get(path, follow=True).text
    accept(path, "another-password")
    assert User.objects.get(pk=ada.pk).check_password(PASSWORD)


def test_who_has_a_password_or_is_not_active_is_not_invited(admin_client: Client, ada: User) -> None:
    page, reasons = f"{USERS}{ada.pk}/", {}
    ada.set_password(PASSWORD)
    for is_active in (True, False):
        ada.is_active = is_active
        ada.save()
        assert f"{page}invite/" not in admin_client.get(f"{page}change/").text
        for send in (admin_client.get, admin_client.post):
            refused = send(f"{page}invite/", follow=True)
            assert refused.redirect_chain == [(f"{page}change/", 302)]
            reasons[is_active] = [*map(str, refused.context["messages"])]
    assert reasons == {
        # The link would take over the account.
        True: ["Not invited: ada already has a password. If it is lost, set a new one on this page."],
        False: ["Not invited: ada is not active. Activate the user first."],
    }
    assert recorded() == []


def test_a_new_user_is_invited_unless_the_form_sets_a_password(admin_client: Client) -> None:
    added = admin_client.post(f"{USERS}add/", {"username": "ada"})
    ada = User.objects.get(username="ada")
    assert (added["Location"], ada.has_usable_password()) == (f"{USERS}{ada.pk}/invite/", False)
    new = {"username": "bob", "password1": PASSWORD}
    assert "password2" in admin_client.post(f"{USERS}add/", new).context["adminform"].form.errors
    added = admin_client.post(f"{USERS}add/", new | {"password2": PASSWORD})
    bob = User.objects.get(username="bob")
    assert (added["Location"], bob.has_usable_password()) == (f"{USERS}{bob.pk}/change/", True)
    again = admin_client.post(f"{USERS}add/", {"username": "eve", "_addanother": "on"})
    assert again["Location"] == f"{USERS}add/"


def test_links_end_with_a_newer_one_after_three_days_and_with_the_user(
    admin_client: Client, ada: User, settings: Any
) -> None:
    first, second = invited(admin_client, ada), invited(admin_client, ada)
    accept(first)
    User.objects.update(is_active=False)
    accept(second)
    User.objects.update(is_active=True)
    settings.PASSWORD_RESET_TIMEOUT = -1
    accept(second)
    assert not User.objects.get(pk=ada.pk).has_usable_password()
    settings.PASSWORD_RESET_TIMEOUT = 60
    accept(second)
    assert User.objects.get(pk=ada.pk).has_usable_password()


def test_an_invitation_does_not_undo_a_password_that_was_just_set(ada: User) -> None:
    ada.set_password(PASSWORD)
    ada.save()
    assert invitations.invite(ada.pk) == ""
    assert User.objects.get(pk=ada.pk).check_password(PASSWORD)


def test_of_two_that_open_a_link_the_first_sets_the_password(admin_client: Client, ada: User) -> None:
    path = invited(admin_client, ada)
    late = Client()
    place = late.get(path, follow=True).redirect_chain[-1][0]
    accept(path)
    late.post(place, {"new_password1": "another-password", "new_password2": "another-password"})
    assert User.objects.get(pk=ada.pk).check_password(PASSWORD)
