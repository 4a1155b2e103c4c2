"""What staff may do with tokens beyond what a browser shows."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from relayer_service.console.overview.attention import AttentionSubject
from relayer_service.models import AuditEntry
from tests.relayers import factories
from tests.relayers.admin_pages import open_form, read_fields
from tokens.console.overview import attention
from tokens.models import AccessToken
from tokens.writes import issue, rotate

LIST = "/admin/tokens/accesstoken/"
ADD = f"{LIST}add/"


@pytest.fixture
def issuer(client: Client, db: None) -> User:
    """Staff who may issue tokens and no more, signed in."""
    issuer = User.objects.create_user("issuer", is_staff=True)
    issuer.user_permissions.set(Permission.objects.filter(codename__in=["add_accesstoken", "view_accesstoken"]))
    client.force_login(issuer)
    return issuer


def test_a_token_in_the_name_of_another_takes_a_superuser(
    client: Client, issuer: User, admin_client: Client, admin_user: User
) -> None:
    client.post(ADD, {"name": "theirs", "user": admin_user.pk, "enabled": "on"})
    assert not AccessToken.objects.exists()
    client.post(ADD, {"name": "mine", "user": issuer.pk, "enabled": "on"})
    admin_client.post(ADD, {"name": "theirs", "user": issuer.pk, "enabled": "on", "scopes": ["none"]})
    assert [token.user for token in AccessToken.objects.all()] == [issuer, issuer]


def test_scopes_are_given_by_superusers_alone(
    settings: Any, client: Client, issuer: User, admin_client: Client
) -> None:
    wanted = {
        "name": "mine",
        "enabled": "on",
        "scopes": ["manage", "send"],
        "allowed_relayers": [" relayer 1", "relayer\u2028-2\u2028", "relayer 1", ""],
    }
    client.post(ADD, wanted | {"user": issuer.pk})
    mine = AccessToken.objects.get()
    assert (mine.scopes, mine.allowed_relayers) == ([], [])
    issuer.user_permissions.add(Permission.objects.get(codename="change_accesstoken"))
    narrowed = wanted | {"user": issuer.pk, "allowed_networks": "10.0.0.0/8"}
    client.post(f"/admin/tokens/accesstoken/{mine.pk}/change/", narrowed)
    mine.refresh_from_db()
    assert (mine.allowed_networks, mine.scopes, mine.allowed_relayers) == (["10.0.0.0/8"], [], [])
    mine.delete()
    settings.EXTENSIONS = ["transactions"]
    admin_client.post(ADD, wanted | {"user": issuer.pk})
    given = AccessToken.objects.get()
    assert (given.scopes, given.allowed_relayers) == (["manage", "send"], ["relayer 1", "relayer\u2028-2\u2028"])
    entry = AuditEntry.objects.filter(object_pk=str(given.pk)).latest("pk")
    assert entry.changes["scopes"] == [None, ["manage", "send"]]


@pytest.mark.parametrize(
    ("chosen", "fault"), [([], "Choose what it can do."), (["none", "read"], "Choose either no scopes or some.")]
)
def test_to_have_no_scopes_is_an_explicit_choice(
    admin_client: Client, admin_user: User, chosen: list[str], fault: str
) -> None:
    assert "scopes" not in open_form(admin_client, ADD)
    fields = {"name": "mine", "user": admin_user.pk, "enabled": "on", "scopes": chosen}
    page = admin_client.post(ADD, fields)
    assert page.context["adminform"].form.errors == {"scopes": [fault]}
    assert (
        "no scopes: list and create signers, list relayers, change webhooks, make JSON-RPC calls, and nothing else"
        in (page.content.decode())
    )
    admin_client.post(ADD, fields | {"scopes": ["none"]})
    token = AccessToken.objects.get()
    assert token.scopes == []
    assert open_form(admin_client, f"{LIST}{token.pk}/change/")["scopes"] == "none"


def test_relayers_are_chosen_from_a_search_and_unknown_ones_stay(
    client: Client, issuer: User, admin_client: Client, admin_user: User
) -> None:
    factories.relayer(identifier="pay-1", name="Payments")
    factories.relayer(identifier="other", name="Other")
    results = [{"id": "pay-1", "text": "pay-1 (Payments)"}, {"id": "pay", "text": "pay (no such relayer)"}]
    found = {"results": results, "pagination": {"more": False}}
    assert admin_client.get(f"{LIST}relayers/", {"term": "pay"}).json() == found
    assert admin_client.get(f"{LIST}relayers/", {"term": "pay-1"}).json()["results"] == results[:1]
    assert client.get(f"{LIST}relayers/", {"term": "pay"}).status_code == 403
    token, _ = issue(name="ci", user=admin_user, scopes=["read"], allowed_relayers=["pay-1", "gone"])
    page = f"{LIST}{token.pk}/change/"
    html = admin_client.get(page).content.decode()
    options = re.findall(
        r'<option value="([^"]*)" selected>([^<]*)</option>', html.partition('name="allowed_relayers"')[2]
    )
    assert options == [("pay-1", "pay-1 (Payments)"), ("gone", "gone (no such relayer)")]
    fields = {"name": "ci", "user": admin_user.pk, "enabled": "on", "scopes": ["read"]}
    admin_client.post(page, fields | {"allowed_relayers": ["gone", "pay-1", "new"]})
    assert AccessToken.objects.get().allowed_relayers == ["gone", "pay-1", "new"]


def test_scopes_of_extensions_that_are_off_are_kept_and_not_given(admin_client: Client, admin_user: User) -> None:
    fields = {"name": "mine", "user": admin_user.pk, "enabled": "on", "scopes": ["read", "send"]}
    assert "send is not one of the available choices" in admin_client.post(ADD, fields).content.decode()
    assert not AccessToken.objects.exists()
    token, _ = issue(name="of before", user=admin_user, scopes=["read", "send"])
    page = f"{LIST}{token.pk}/change/"
    assert "list, read and estimate fees (without effect: send)" in admin_client.get(page).content.decode()
    assert admin_client.post(page, fields).status_code == 302
    token.refresh_from_db()
    assert (token.name, token.scopes) == ("mine", ["read", "send"])


def test_the_list_and_the_issued_page_show_the_permissions(admin_client: Client, admin_user: User) -> None:
    issued = admin_client.post(ADD, {"name": "a", "user": admin_user.pk, "enabled": "on", "scopes": ["manage"]})
    assert "no-store" in issued["Cache-Control"]
    words = "list, read and estimate fees; create, change and delete"
    assert f"Permissions: {words}." in issued.content.decode()
    assert words in admin_client.get(LIST).content.decode()


EXPIRY = datetime(2030, 6, 1, 12, tzinfo=UTC)
ACTIVE: dict[str, Any] = {"enabled": True, "expires_at": EXPIRY, "allowed_networks": ["10.0.0.0/8", "2001:db8::/32"]}


def sent(**changes: Any) -> dict[str, Any]:
    """Return what the page of a token sends, as if it had shown what is sent: all of it can be forged."""
    values = ACTIVE | changes
    expires_at = values["expires_at"]
    return {
        **({"enabled": "on"} if values["enabled"] else {}),
        "expires_at_0": f"{expires_at:%Y-%m-%d}" if expires_at else "",
        "expires_at_1": f"{expires_at:%H:%M:%S}" if expires_at else "",
        "allowed_networks": "\n".join(values["allowed_networks"]),
        "initial-enabled": str(not values["enabled"]),
        "initial-expires_at_0": "2001-01-01",
        "initial-expires_at_1": "00:00:00",
        "initial-allowed_networks": "forged",
    }


def stored(token: AccessToken) -> dict[str, Any]:
    token.refresh_from_db()
    return {name: getattr(token, name) for name in ACTIVE}


@pytest.fixture
def changer(client: Client, issuer: User) -> User:
    """Staff who may change tokens too, signed in."""
    issuer.user_permissions.add(*Permission.objects.filter(codename__in=["change_accesstoken", "revoke_accesstoken"]))
    return issuer


@pytest.mark.parametrize(
    "change",
    [
        {"enabled": False},
        {"expires_at": EXPIRY - timedelta(days=1)},
        {"allowed_networks": ["10.1.0.0/16"]},
        {"allowed_networks": ["2001:db8::1", "10.0.0.0/8"]},
    ],
)
def test_staff_narrow_a_token(client: Client, changer: User, admin_user: User, change: dict[str, Any]) -> None:
    token, _ = issue(name="ci", user=admin_user, scopes=["manage"], **ACTIVE)
    assert client.post(f"{LIST}{token.pk}/change/", sent(**change)).status_code == 302
    assert stored(token) == ACTIVE | change


@pytest.mark.parametrize(
    ("before", "change", "refusal"),
    [
        ({"enabled": False}, {"enabled": True}, "Only superusers can re-enable a token."),
        ({}, {"expires_at": EXPIRY + timedelta(days=1)}, "Only superusers can extend a token."),
        ({}, {"expires_at": None}, "Only superusers can extend a token."),
        ({}, {"allowed_networks": []}, "Only superusers can add networks to a token."),
        ({}, {"allowed_networks": ["10.0.0.0/7"]}, "Only superusers can add networks to a token."),
        ({}, {"allowed_networks": ["10.0.0.0/8", "192.0.2.1"]}, "Only superusers can add networks to a token."),
        ({}, {"allowed_networks": ["::ffff:0:0/96"]}, "Only superusers can add networks to a token."),
        ({}, {"allowed_networks": ["home"]}, "is not an address or a CIDR network."),
    ],
)
def test_staff_do_not_widen_a_token(
    client: Client,
    changer: User,
    admin_client: Client,
    admin_user: User,
    before: dict[str, Any],
    change: dict[str, Any],
    refusal: str,
) -> None:
    token, _ = issue(name="ci", user=admin_user, scopes=["manage"], **ACTIVE | before)
    page = f"{LIST}{token.pk}/change/"
    assert refusal in client.post(page, sent(**before | change)).content.decode()
    assert stored(token) == ACTIVE | before
    if refusal.startswith("Only superusers"):
        admin_client.post(page, sent(**before | change) | {"name": "ci", "user": admin_user.pk, "scopes": ["manage"]})
        assert stored(token) == ACTIVE | before | change


def test_staff_do_not_change_whose_token_it_is(client: Client, changer: User, admin_user: User) -> None:
    token, _ = issue(name="ci", user=admin_user)
    client.post(f"{LIST}{token.pk}/change/", {"name": "renamed", "user": changer.pk, "enabled": "on"})
    token.refresh_from_db()
    assert (token.name, token.user) == ("ci", admin_user)


def test_the_list_cannot_be_filtered_by_what_it_does_not_show(admin_client: Client) -> None:
    for lookup in ("digest__startswith=5", "user__password__startswith=p"):
        assert admin_client.get(f"{LIST}?{lookup}").status_code == 400


def test_a_use_since_the_page_was_opened_is_not_forgotten(admin_client: Client, admin_user: User) -> None:
    token, _ = issue(name="ci", user=admin_user, allowed_networks=["10.0.0.0/8"])
    url = f"/admin/tokens/accesstoken/{token.pk}/change/"
    opened = open_form(admin_client, url)
    used = timezone.now()
    AccessToken.objects.update(last_used_at=used, allowed_networks=["192.0.2.0/24"])
    with CaptureQueriesContext(connection) as queries:
        admin_client.post(url, opened | {"name": "deploy"})
    (update,) = [query["sql"] for query in queries if query["sql"].startswith('UPDATE "tokens_accesstoken"')]
    assert re.findall(r'"(\w+)" = ', update.partition("WHERE")[0]) == ["name"]
    token.refresh_from_db()
    assert (token.name, token.last_used_at, token.allowed_networks) == ("deploy", used, ["192.0.2.0/24"])


def rotate_on_page(client: Client, token: AccessToken, hours: str = "2") -> Any:
    return client.post(f"{LIST}{token.pk}/rotate/", {"overlap_hours": hours})


def test_a_superuser_rotates_a_token_and_sees_the_new_one_once(admin_client: Client, admin_user: User) -> None:
    old, _ = issue(name="ci", user=admin_user, scopes=["read"])
    asked = admin_client.get(f"{LIST}{old.pk}/rotate/")
    assert "The old one is accepted for the overlap, then expires." in asked.content.decode()
    page = rotate_on_page(admin_client, old)
    new = AccessToken.objects.latest("pk")
    assert "no-store" in page["Cache-Control"]
    assert f"rms_{new.key}_" in page.content.decode()
    old.refresh_from_db()
    assert old.expires_at
    assert old.replaced_at
    assert old.expires_at - old.replaced_at == timedelta(hours=2)
    again = admin_client.post(f"{LIST}{old.pk}/rotate/", {"overlap_hours": "2"}, follow=True)
    assert "Not rotated: the token was already replaced: rotate its replacement." in again.content.decode()
    assert f'Replaced by <a class="underline" href="{LIST}{new.pk}/change/">' in again.content.decode()
    assert AccessToken.objects.count() == 2


def test_an_overlap_over_a_week_and_staff_who_are_no_superusers_are_refused(
    admin_client: Client, client: Client, issuer: User
) -> None:
    issuer.user_permissions.add(Permission.objects.get(codename="change_accesstoken"))
    mine, _ = issue(name="mine", user=issuer, scopes=["manage"])
    page = rotate_on_page(admin_client, mine, "169")
    assert "Ensure this value is less than or equal to 168." in page.content.decode()
    assert rotate_on_page(client, mine).status_code == 403
    assert AccessToken.objects.count() == 1


@pytest.mark.parametrize(("answer", "are_kept"), [({}, False), ({"with_successors": "keep"}, True)])
def test_disabling_a_token_on_its_page_asks_about_its_successors(
    admin_client: Client, admin_user: User, answer: dict[str, str], are_kept: bool
) -> None:
    old, _ = issue(name="ci", user=admin_user)
    new = rotate(old.pk).new
    page = f"{LIST}{old.pk}/change/"
    opened = read_fields(admin_client.get(page).content.decode(), "accesstoken_form")
    assert opened == open_form(admin_client, page)
    assert opened.pop("with_successors") == "disable"
    del opened["enabled"]
    shown = admin_client.post(page, opened | answer, follow=True).content.decode()
    assert (f"Successors are still accepted: {new}." in shown) is are_kept
    new.refresh_from_db()
    assert new.enabled is are_kept
    entry = AuditEntry.objects.filter(object_pk=str(new.pk)).latest("pk")
    if not are_kept:
        assert (entry.changes, entry.reason) == (
            {"enabled": [True, False]},
            "Disabled with the token that it succeeds.",
        )
    # Without an active successor, there is nothing to ask.
    assert "with_successors" not in open_form(admin_client, f"{LIST}{new.pk}/change/")


@pytest.mark.parametrize(("answer", "are_kept"), [({}, False), ({"with_successors": "keep"}, True)])
def test_disabling_selected_tokens_asks_about_their_successors(
    client: Client, changer: User, admin_user: User, answer: dict[str, str], are_kept: bool
) -> None:
    old, _ = issue(name="ci", user=admin_user)
    new = rotate(old.pk).new
    chosen = {"action": "disable", "_selected_action": [old.pk]}
    asked = client.post(LIST, chosen).content.decode()
    assert f'Its active successors: <a class="underline" href="{LIST}{new.pk}/change/">' in asked
    assert AccessToken.objects.filter(enabled=True).count() == 2
    confirmed = chosen | {"confirmed": str(old.pk), "reason": "Leaked."} | answer
    shown = client.post(LIST, confirmed, follow=True).content.decode()
    assert "Its successors" in asked
    revoked = "Revoked: 1. Other processes reject it within" if are_kept else "Revoked: 2. Other processes reject them"
    assert revoked in shown
    assert (f"Successors are still accepted: {new}." in shown) is are_kept
    assert {token.pk: token.enabled for token in AccessToken.objects.all()} == {old.pk: False, new.pk: are_kept}
    assert AuditEntry.objects.filter(object_pk=str(old.pk)).latest("pk").reason == "Leaked."


@pytest.mark.parametrize("is_over", [False, True])
def test_deleting_a_token_disables_its_successors_unless_it_expired(
    admin_client: Client, admin_user: User, is_over: bool
) -> None:
    old, _ = issue(name="ci", user=admin_user)
    new = rotate(old.pk, timedelta(hours=0 if is_over else 1)).new
    page = admin_client.post(f"{LIST}{old.pk}/delete/", {"post": "yes"}, follow=True)
    assert [*AccessToken.objects.values_list("pk", "enabled")] == [(new.pk, is_over)]
    assert (f"Successors are still accepted: {new}." in page.content.decode()) is is_over
    # A whole family that is deleted warns of nothing.
    old, _ = issue(name="ci", user=admin_user)
    family = [new.pk, old.pk, rotate(old.pk, timedelta()).new.pk]
    chosen = {"action": "delete_selected", "_selected_action": family, "post": "yes"}
    assert "still accepted" not in admin_client.post(LIST, chosen, follow=True).content.decode()
    assert not AccessToken.objects.exists()


@pytest.mark.parametrize("field", ["scopes", "expires_at_0"])
def test_changing_the_rights_of_a_rotated_token_warns_of_its_successors(
    admin_client: Client, admin_user: User, field: str
) -> None:
    old, _ = issue(name="ci", user=admin_user, scopes=["read", "manage"])
    new = rotate(old.pk).new
    page = f"{LIST}{old.pk}/change/"
    renamed = open_form(admin_client, page) | {"name": "renamed"}
    assert "Successors" not in admin_client.post(page, renamed, follow=True).content.decode()
    narrowed = open_form(admin_client, page) | {field: ["read"] if field == "scopes" else "2020-01-01"}
    shown = admin_client.post(page, narrowed, follow=True).content.decode()
    assert f"Successors were not changed: {new}." in shown
    assert AccessToken.objects.get(pk=new.pk).scopes == ["read", "manage"]


def test_the_page_of_a_token_shows_the_newest_of_its_family(
    admin_client: Client, admin_user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tokens.admin.MAX_FAMILY_SHOWN", 2)
    family = [issue(name="ci", user=admin_user)[0]]
    for _ in range(3):
        family.append(rotate(family[-1].pk).new)
    page = admin_client.get(f"{LIST}{family[-1].pk}/change/").content.decode()
    assert [token.pk for token in family if f"{LIST}{token.pk}/change/" in page.partition("Succeeds")[2]] == [
        family[1].pk,
        family[2].pk,
    ]


def test_a_replaced_token_needs_no_attention_before_it_expires(
    admin_client: Client, admin_user: User, rf: RequestFactory
) -> None:
    old, _ = issue(name="ci", user=admin_user)
    rotate(old.pk)
    request = rf.get("/")
    request.user = admin_user
    assert attention(request) == AttentionSubject("access tokens", [])
    assert admin_client.get(f"{LIST}?state=expires+soon").context["cl"].result_count == 0
