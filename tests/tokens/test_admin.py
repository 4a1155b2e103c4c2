"""What staff may do with tokens beyond what a browser shows."""

import re

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from relayer_service.models import AuditEntry
from tests.relayers.admin_pages import FormReader
from tokens.models import AccessToken

ADD = "/admin/tokens/accesstoken/add/"


@pytest.fixture
def issuer(client: Client, db: None) -> User:
    """Staff who may issue tokens and no more, signed in."""
    issuer = User.objects.create_user("issuer", is_staff=True)
    issuer.user_permissions.set(Permission.objects.filter(codename__in=["add_accesstoken", "view_accesstoken"]))
    client.force_login(issuer)
    return issuer


def test_staff_issue_tokens_in_their_own_name(client: Client, issuer: User) -> None:
    client.post(ADD, {"name": "mine", "user": issuer.pk, "enabled": "on"})
    assert AccessToken.objects.get().user == issuer


def test_a_token_in_the_name_of_another_takes_a_superuser(
    client: Client, issuer: User, admin_client: Client, admin_user: User
) -> None:
    client.post(ADD, {"name": "theirs", "user": admin_user.pk, "enabled": "on"})
    assert not AccessToken.objects.exists()
    admin_client.post(ADD, {"name": "theirs", "user": issuer.pk, "enabled": "on"})
    assert AccessToken.objects.get().user == issuer


def test_scopes_are_given_by_superusers_alone(client: Client, issuer: User, admin_client: Client) -> None:
    wanted = {
        "name": "mine",
        "enabled": "on",
        "scopes": ["manage", "send"],
        "allowed_relayers": "relayer 1\nrelayer-2\n",
    }
    client.post(ADD, wanted | {"user": issuer.pk})
    mine = AccessToken.objects.get()
    assert (mine.scopes, mine.allowed_relayers) == ([], [])
    issuer.user_permissions.add(Permission.objects.get(codename="change_accesstoken"))
    client.post(f"/admin/tokens/accesstoken/{mine.pk}/change/", wanted | {"user": issuer.pk, "name": "changed"})
    mine.refresh_from_db()
    assert (mine.name, mine.scopes, mine.allowed_relayers) == ("changed", [], [])
    mine.delete()
    admin_client.post(ADD, wanted | {"user": issuer.pk})
    given = AccessToken.objects.get()
    assert (given.scopes, given.allowed_relayers) == (["manage", "send"], ["relayer 1", "relayer-2"])
    entry = AuditEntry.objects.filter(object_pk=str(given.pk)).latest("pk")
    assert entry.changes["scopes"] == [None, ["manage", "send"]]


@pytest.mark.parametrize("lookup", ["digest__startswith=5", "user__password__startswith=p"])
def test_the_list_cannot_be_filtered_by_what_it_does_not_show(admin_client: Client, lookup: str) -> None:
    assert admin_client.get(f"/admin/tokens/accesstoken/?{lookup}").status_code == 400


def test_a_use_since_the_page_was_opened_is_not_forgotten(admin_client: Client, admin_user: User) -> None:
    token, _ = AccessToken.objects.issue(name="ci", user=admin_user, allowed_networks=["10.0.0.0/8"])
    url = f"/admin/tokens/accesstoken/{token.pk}/change/"
    reader = FormReader("accesstoken_form")
    reader.feed(admin_client.get(url).content.decode())
    used = timezone.now()
    AccessToken.objects.update(last_used_at=used, allowed_networks=["192.0.2.0/24"])
    with CaptureQueriesContext(connection) as queries:
        admin_client.post(url, reader.fields | {"name": "deploy"})
    (update,) = [query["sql"] for query in queries if query["sql"].startswith('UPDATE "tokens_accesstoken"')]
    assert re.findall(r'"(\w+)" = ', update.partition("WHERE")[0]) == ["name"]
    token.refresh_from_db()
    assert (token.name, token.last_used_at, token.allowed_networks) == ("deploy", used, ["192.0.2.0/24"])
