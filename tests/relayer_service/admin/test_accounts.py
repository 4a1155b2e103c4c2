"""Staff who may change users but are no superusers gain no rights that way; what the pages of users say."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.utils.html import strip_tags
from pytest_django import DjangoAssertNumQueries

from relayer_service import roles
from relayer_service.models import AuditEntry
from relayer_service.sign_in.models import SignInAddress

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
def test_who_may_do_more_is_viewed_but_not_changed(
    client: Client, staff: User, root: User, operator: User, who: str
) -> None:
    target = {"root": root, "operator": operator}[who]
    sent = page(target, email="new@example.com") | PASSWORD | {"post": "yes"}
    pages = [f"{USERS}{target.pk}/{path}/" for path in ("change", "password", "delete")]
    assert [client.get(url).status_code for url in pages] == [200, 403, 403]
    assert [client.post(url, sent).status_code for url in pages] == [403] * 3
    chosen = {"action": "delete_selected", "_selected_action": [target.pk, staff.pk], "post": "yes"}
    assert client.post(USERS, chosen).status_code == 403
    after = User.objects.get(pk=target.pk)
    assert (after.email, after.password) == (target.email, target.password)


def test_who_may_do_no_more_can_be_changed_and_deleted_but_not_activated(
    client: Client, admin_client: Client, staff: User
) -> None:
    other = User.objects.create_user("other", is_staff=True)
    other.user_permissions.add(permission("view_user"))
    assert client.post(f"{USERS}{other.pk}/password/", PASSWORD).status_code == 302
    other.refresh_from_db()
    assert other.check_password("another-long-password")
    states = []
    for each, is_active in ((client, None), (client, "on"), (admin_client, "on")):
        each.post(f"{USERS}{other.pk}/change/", page(other, is_active=is_active))
        other.refresh_from_db()
        states.append(other.is_active)
    assert states == [False, False, True]
    client.post(f"{USERS}{other.pk}/delete/", {"post": "yes"})
    assert not User.objects.filter(pk=other.pk).exists()


def test_a_new_user_has_no_rights(client: Client, staff: User, operator: User) -> None:
    forged = {"is_superuser": "on", "is_staff": "on", "groups": [operator.groups.get().pk]}
    client.post(f"{USERS}add/", {"username": "new"} | PASSWORD | forged)
    assert rights(User.objects.get(username="new")) == (False, False, 0, 0)


def test_groups_are_changed_by_superusers_alone(client: Client, staff: User, operator: User) -> None:
    group = operator.groups.get()
    sent = {"name": "all", "permissions": [permission("add_relayer").pk], "post": "yes"}
    delete = {"action": "delete_selected", "_selected_action": [group.pk], "post": "yes"}
    posts = {"add/": sent, f"{group.pk}/change/": sent, f"{group.pk}/delete/": sent}
    assert [client.post(GROUPS + path, body).status_code for path, body in posts.items()] == [403] * 3
    client.post(GROUPS, delete)
    assert [each.codename for each in Group.objects.get(name="operators").permissions.all()] == ["add_signer"]
    assert client.get(f"{GROUPS}{group.pk}/change/").status_code == 200


@pytest.fixture
def owner(client: Client, db: None) -> User:
    """Somebody with the role Owner, signed in."""
    owner = User.objects.create_user("owner", is_staff=True)
    roles.assign(owner, "Owner")
    client.force_login(owner)
    return owner


def role(user: User) -> tuple[str, bool, list[str]]:
    """Return the role of a user, the staff status, and the user's other groups."""
    user = User.objects.get(pk=user.pk)
    names = [group.name for group in user.groups.all()]
    return roles.role_of(names), user.is_staff, sorted({*names} - {*roles.ROLES})


def offered(response: Any) -> list[str]:
    return [value for value, _ in response.context["adminform"].form.fields["role"].choices]


def test_a_colleague_is_added_with_a_role_in_one_form(client: Client, owner: User) -> None:
    assert offered(client.get(f"{USERS}add/")) == ["", *roles.ROLES]
    client.post(f"{USERS}add/", {"username": "new", "role": "Operator"} | PASSWORD)
    new = User.objects.get(username="new")
    assert role(new) == ("Operator", True, [])
    assert {*new.get_all_permissions()} == roles.ROLES["Operator"].permissions
    changes = AuditEntry.objects.for_row(new).get().changes
    assert (changes["role"], changes["is_staff"]) == ([None, "Operator"], [None, True])


def test_staff_status_follows_the_role_unless_there_are_other_rights(admin_client: Client, operator: User) -> None:
    user, group = User.objects.create_user("new"), operator.groups.get().pk

    def after(target: User, **changes: Any) -> tuple[str, bool, list[str]]:
        admin_client.post(f"{USERS}{target.pk}/change/", page(target, **changes))
        return role(target)

    found = [after(user, role=chosen) for chosen in ("Viewer", "Owner", "")]
    assert found == [("Viewer", True, []), ("Owner", True, []), ("", False, [])]
    recorded = [entry.changes for entry in AuditEntry.objects.for_row(user).order_by("id")]
    assert recorded == [
        {"is_staff": [False, True], "role": ["", "Viewer"]},
        {"role": ["Viewer", "Owner"]},
        {"is_staff": [True, False], "role": ["Owner", ""]},
    ]
    assert after(operator, role="Manager", groups=[group]) == ("Manager", True, ["operators"])
    assert after(operator, role="", groups=[group]) == ("", True, ["operators"])
    bare = User.objects.create_user("bare", is_staff=True)
    assert after(bare, email="new@example.com") == ("", True, [])


def test_an_owner_sets_roles_but_no_other_rights(client: Client, owner: User, operator: User) -> None:
    user = User.objects.create_user("new")
    forged = {"is_superuser": "on", "groups": [operator.groups.get().pk]}
    forged |= {"user_permissions": [permission("add_relayer").pk]}
    client.post(f"{USERS}{user.pk}/change/", page(user, role="Manager", **forged))
    assert (role(user), rights(user)) == (("Manager", True, []), (False, True, 1, 0))
    client.post(f"{USERS}{user.pk}/change/", page(user, role=""))
    assert role(user) == ("", False, [])


def test_no_one_gives_a_role_with_a_permission_that_they_lack(client: Client, staff: User) -> None:
    staff.groups.add(Group.objects.get(name="Operator"))
    user = User.objects.create_user("new")
    assert offered(client.get(f"{USERS}{user.pk}/change/")) == ["", "Viewer", "Operator"]
    for forged, given in (("Manager", ""), ("Owner", ""), ("Operator", "Operator")):
        client.post(f"{USERS}{user.pk}/change/", page(user, role=forged))
        assert role(user)[0] == given


def test_the_group_of_a_role_is_read_only_even_for_superusers_and_read_at_once(
    admin_client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    group = Group.objects.get(name="Operator")
    assert group.permissions.count() > 10
    with django_assert_max_num_queries(10):
        body = admin_client.get(f"{GROUPS}{group.pk}/change/").content.decode()
    assert "A release defines this role" in body
    assert "<div>Relayers: check relayers now, pause and resume relayers, " in body
    assert 'name="_save"' not in body
    sent = {"name": "Operator", "permissions": [], "post": "yes"}
    for path in ("change/", "delete/"):
        assert admin_client.post(f"{GROUPS}{group.pk}/{path}", sent).status_code == 403
    admin_client.post(GROUPS, {"action": "delete_selected", "_selected_action": [group.pk], "post": "yes"})
    assert group.permissions.count() == len(roles.ROLES["Operator"].permissions)


def test_users_are_listed_and_filtered_by_role(admin_client: Client, operator: User, owner: User) -> None:
    User.objects.create_user("wallet-backend")

    def listed(query: str = "") -> dict[str, str]:
        shown = admin_client.get(f"{USERS}?{query}").context["cl"]
        return {user.username: shown.model_admin.role(user) for user in shown.result_list}

    assert listed() == {"admin": "Superuser", "operator": "Custom", "owner": "Owner", "wallet-backend": "No role"}
    assert listed("role=Owner") == {"owner": "Owner"}
    assert listed("role=superuser") == {"admin": "Superuser"}
    assert listed("role=none") == {"operator": "Custom", "wallet-backend": "No role"}


def test_the_pages_of_a_user_say_whether_there_is_a_password_and_what_it_is_for(admin_client: Client) -> None:
    user = User.objects.create_user("ada", password="the-password-of-ada")
    page = admin_client.get(f"{USERS}{user.pk}/change/").content.decode()
    assert re.search(r'<div class="readonly[^>]*>\s*Set\s*</div>', page)
    assert not re.search("algorithm|iterations|salt", page)
    page = admin_client.get(f"{USERS}add/").content.decode()
    assert "Leave it empty to invite the user, with a link to set it" in page
    assert not re.search("LDAP|After you've created", page)


def test_the_page_that_deletes_a_user_names_what_goes_with_it(admin_client: Client) -> None:
    user = User.objects.create_user("ada")
    SignInAddress.objects.remember(user, "192.0.2.1")
    page = admin_client.get(f"{USERS}{user.pk}/delete/").content.decode()
    assert "Sign-in addresses: 1" in strip_tags(page)
