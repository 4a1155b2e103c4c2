"""Staff who may change users but are no superusers gain no rights that way."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

USERS = "/admin/auth/user/"
GROUPS = "/admin/auth/group/"
PASSWORD = {"password1": "another-long-password", "password2": "another-long-password", "usable_password": "true"}


def permission(codename: str) -> Permission:
    return Permission.objects.get(codename=codename)


@pytest.fixture
def staff(client: Client, db: None) -> User:
    """Staff with every permission on users and groups, signed in."""
    staff = User.objects.create_user("staff", is_staff=True)
    staff.user_permissions.set(Permission.objects.filter(content_type__model__in=["user", "group"]))
    client.force_login(staff)
    return staff


@pytest.fixture
def root(db: None) -> User:
    return User.objects.create_superuser("root", password="the-password-of-root")


@pytest.fixture
def operator(db: None) -> User:
    """Somebody who may do something that the staff above may not, by a group."""
    group = Group.objects.create(name="operators")
    group.permissions.add(permission("add_signer"))
    operator = User.objects.create_user("operator", password="the-password-of-operator", is_staff=True)
    operator.groups.add(group)
    return operator


def page(user: User, **changes: Any) -> dict[str, Any]:
    """Return what the page of a user sends, with changes."""
    fields = {
        "username": user.username,
        "date_joined_0": f"{user.date_joined:%Y-%m-%d}",
        "date_joined_1": f"{user.date_joined:%H:%M:%S}",
    }
    flags = {name: "on" for name in ("is_active", "is_staff") if getattr(user, name)}
    return {name: value for name, value in (fields | flags | changes).items() if value is not None}


def rights(user: User) -> tuple[bool, bool, int, int]:
    user = User.objects.get(pk=user.pk)
    return user.is_superuser, user.is_staff, user.groups.count(), user.user_permissions.count()


@pytest.mark.parametrize("who", ["staff", "other"])
def test_rights_are_set_by_superusers_alone(
    client: Client, admin_client: Client, staff: User, operator: User, who: str
) -> None:
    target = staff if who == "staff" else User.objects.create_user("other")
    before = rights(target)
    wanted = page(
        target,
        email="new@example.com",
        is_superuser="on",
        is_staff="on",
        groups=[operator.groups.get().pk],
        user_permissions=[permission("add_relayer").pk],
    )
    assert client.post(f"{USERS}{target.pk}/change/", wanted).status_code == 302
    target.refresh_from_db()
    assert (target.email, rights(target)) == ("new@example.com", before)
    admin_client.post(f"{USERS}{target.pk}/change/", wanted)
    assert rights(target) == (True, True, 1, 1)


@pytest.mark.parametrize("who", ["root", "operator"])
@pytest.mark.parametrize("path", ["change/", "password/", "delete/"])
def test_who_may_do_more_is_not_changed(
    client: Client, staff: User, root: User, operator: User, who: str, path: str
) -> None:
    target = {"root": root, "operator": operator}[who]
    sent = page(target, email="new@example.com") | PASSWORD | {"post": "yes"}
    assert client.post(f"{USERS}{target.pk}/{path}", sent).status_code == 403
    after = User.objects.get(pk=target.pk)
    assert (after.email, after.password) == (target.email, target.password)


def test_who_may_do_more_is_viewed_but_their_password_page_is_not(client: Client, staff: User, root: User) -> None:
    assert client.get(f"{USERS}{root.pk}/change/").status_code == 200
    assert client.get(f"{USERS}{root.pk}/password/").status_code == 403


def test_who_may_do_more_is_not_deleted_from_the_list(client: Client, staff: User, root: User) -> None:
    other = User.objects.create_user("other")
    sent = {"action": "delete_selected", "_selected_action": [root.pk, other.pk], "post": "yes"}
    assert client.post(USERS, sent).status_code == 403
    assert User.objects.filter(pk__in=[root.pk, other.pk]).count() == 2


def test_who_may_do_no_more_can_be_changed_and_deleted(client: Client, staff: User) -> None:
    other = User.objects.create_user("other", is_staff=True)
    other.user_permissions.add(permission("view_user"))
    assert client.post(f"{USERS}{other.pk}/password/", PASSWORD).status_code == 302
    assert User.objects.get(pk=other.pk).check_password("another-long-password")
    client.post(f"{USERS}{other.pk}/delete/", {"post": "yes"})
    assert not User.objects.filter(pk=other.pk).exists()


def test_a_user_is_deactivated_by_staff_and_activated_by_superusers(
    client: Client, admin_client: Client, staff: User
) -> None:
    other = User.objects.create_user("other")
    states = []
    for each, is_active in ((client, None), (client, "on"), (admin_client, "on")):
        each.post(f"{USERS}{other.pk}/change/", page(other, is_active=is_active))
        other.refresh_from_db()
        states.append(other.is_active)
    assert states == [False, False, True]


def test_a_new_user_has_no_rights(client: Client, staff: User, operator: User) -> None:
    forged = {"is_superuser": "on", "is_staff": "on", "groups": [operator.groups.get().pk]}
    client.post(f"{USERS}add/", {"username": "new"} | PASSWORD | forged)
    assert rights(User.objects.get(username="new")) == (False, False, 0, 0)


def test_groups_are_changed_by_superusers_alone(client: Client, staff: User, operator: User) -> None:
    group = operator.groups.get()
    sent = {"name": "all", "permissions": [permission("add_relayer").pk], "post": "yes"}
    delete = {"action": "delete_selected", "_selected_action": [group.pk], "post": "yes"}
    posts = {
        "add/": sent,
        f"{group.pk}/change/": sent,
        f"{group.pk}/delete/": sent,
    }
    assert [client.post(GROUPS + path, body).status_code for path, body in posts.items()] == [403] * 3
    client.post(GROUPS, delete)
    assert [each.codename for each in Group.objects.get().permissions.all()] == ["add_signer"]
    assert client.get(f"{GROUPS}{group.pk}/change/").status_code == 200
