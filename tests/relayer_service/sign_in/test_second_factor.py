"""The second factor: who must have one, setting it up, signing in with it, and losing it."""

import base64
import re
import time
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from relayer_service.models import SecondFactor
from relayer_service.roles import ROLES, assign
from relayer_service.sign_in import codes
from relayer_service.sign_in.models import enable
from relayer_service.sign_in.verification import SESSION_KEY
from tests.relayer_service.sign_in.signing_in import LOGIN, NOW, code_at, recorded, sign_in

CODE, SET_UP, OVERVIEW = "/admin/login/code/", "/admin/login/set-up/", "/admin/second-factor/"
KEY = b"12345678901234567890".hex()
# Of Django's other pages one each.
PAGES = ["/admin/", "/admin/auth/user/", "/admin/password_change/", "/admin/search/?s=a", OVERVIEW]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of codes and limits, which a test moves on."""
    moments = [NOW]
    monkeypatch.setattr("time.time", lambda: moments[-1])
    return moments


@pytest.fixture
def olga(db: None) -> User:
    return User.objects.create_superuser("olga", password="a-password-for-tests")


@pytest.fixture
def recovery_codes(olga: User) -> list[str]:
    """The recovery codes of olga, who has a second factor."""
    return enable(olga, KEY, step=-1)[1]


def code(key: str = KEY) -> str:
    return code_at(time.time(), key)


def shown_key(client: Client) -> str:
    page: str = client.get(SET_UP).content.decode()
    (text,) = re.findall(r'<code id="second-factor-key">(.*?)</code>', page)
    # Without it the picture is cut off where it is made smaller.
    assert "<svg viewBox=" in page
    return base64.b32decode(text).hex()


def shown_codes(response: Any) -> list[str]:
    (text,) = re.findall(r'<pre id="recovery-codes".*?>(.*?)</pre>', response.content.decode(), re.DOTALL)
    return list(map(str, text.split()))


def locations(client: Client, paths: list[str]) -> set[str]:
    return {client.get(path).headers.get("Location", "").partition("?")[0] for path in paths}


def test_the_setting_names_who_must_have_one(settings: Any, db: None) -> None:
    found = {}
    for required in ("none", "superusers", "staff"):
        settings.REQUIRE_SECOND_FACTOR = required
        for is_superuser in (True, False):
            client = Client()
            name = f"{required}-{is_superuser}"
            client.force_login(User.objects.create_user(name, is_staff=True, is_superuser=is_superuser))
            found[required, is_superuser] = locations(client, ["/admin/"])
    assert {key for key, leads_to in found.items() if leads_to == {LOGIN}} == {
        ("superusers", True),
        ("staff", True),
        ("staff", False),
    }


def test_a_role_in_the_setting_means_it_and_those_above(settings: Any, admin_client: Client) -> None:
    for role in ROLES:
        assign(User.objects.create_user(role, is_staff=True), role)
    User.objects.create_user("staff", is_staff=True)
    settings.REQUIRE_SECOND_FACTOR = "Manager"
    client = Client()
    found = {}
    for user in User.objects.exclude(username="admin"):
        client.force_login(user)
        found[user.username] = client.get("/admin/").status_code
    assert found == {"Viewer": 200, "Operator": 200, "Manager": 302, "Owner": 302, "staff": 200}
    enable(User.objects.get(username="Owner"), codes.new_key(), 0)
    enable(User.objects.get(username="admin"), codes.new_key(), 0)
    session = admin_client.session
    session[SESSION_KEY] = str(SecondFactor.objects.get(user__username="admin").identifier)
    session.save()
    cells = re.findall(
        r'data-label="[Ss]econd factor"[^>]*>\s*([^<]*?)\s*<', admin_client.get("/admin/auth/user/").text
    )
    assert sorted(cells) == ["Off", "Off", "Off", "Off, required", "On", "On"]


def test_without_one_a_superuser_sets_it_up_and_does_nothing_else(client: Client, settings: Any, olga: User) -> None:
    settings.REQUIRE_SECOND_FACTOR = "superusers"
    response = sign_in("olga", client=client)
    assert (response.status_code, response["Location"]) == (302, f"{SET_UP}?next=%2Fadmin%2F")
    assert locations(client, PAGES) == {LOGIN}
    assert client.get(f"{LOGIN}?next=/admin/auth/user/")["Location"] == f"{SET_UP}?next=%2Fadmin%2Fauth%2Fuser%2F"
    assert client.post("/admin/auth/user/add/", {"username": "mallory"})["Location"].startswith(LOGIN)
    assert b"nav-sidebar" not in client.get("/no-such-page/").content
    key, session = shown_key(client), client.session.session_key
    # The new key is encrypted in the session.
    assert shown_key(client) == key
    assert [text for text in (key, codes.base32(key)) if text in str(dict(client.session))] == []
    assert client.post(SET_UP, {"new_code": "000000"}).status_code == 200
    assert SecondFactor.objects.count() == 0
    confirmed = client.post(SET_UP, {"new_code": code(key)})
    assert SecondFactor.objects.get(user=olga).recovery_codes == [
        codes.digest(each) for each in shown_codes(confirmed)
    ]
    assert client.session.session_key != session
    assert client.get("/admin/").status_code == 200
    assert [reason for *_, reason in recorded()] == ["Signed in", "Enabled the second factor"]


def test_a_code_is_asked_for_after_the_password(client: Client, olga: User, recovery_codes: list[str]) -> None:
    response = sign_in("olga", client=client)
    assert response["Location"] == f"{CODE}?next=%2Fadmin%2F"
    assert locations(client, [*PAGES, SET_UP]) == {LOGIN}
    session = client.session.session_key
    assert "This code is wrong" in client.post(CODE, {"code": "000000"}).content.decode()
    assert client.post(f"{CODE}?next=/admin/auth/user/", {"code": code()})["Location"] == "/admin/auth/user/"
    assert client.session.session_key != session
    assert client.get("/admin/").status_code == 200
    assert recorded()[-2:] == [
        ("olga", "olga", "127.0.0.1", "Sign-in failed: wrong code"),
        ("olga", "olga", "127.0.0.1", "Signed in with a code"),
    ]


def test_wrong_codes_are_limited(
    client: Client, olga: User, recovery_codes: list[str], clock: list[float], settings: Any
) -> None:
    sign_in("olga", client=client)
    keys, settings.ENCRYPTION_KEYS = settings.ENCRYPTION_KEYS, {"2": b"0123456789abcdef0123456789abcdef"}
    assert "a key is missing from ENCRYPTION_KEYS" in client.post(CODE, {"code": code()}).content.decode()
    settings.ENCRYPTION_KEYS = keys
    assert [client.post(CODE, {"code": "000000"}).status_code for _ in range(6)] == [200] * 5 + [429]
    refused = client.post(CODE, {"code": code()})
    assert refused.status_code == 429
    clock.append(NOW + int(refused["Retry-After"]) + 1)
    # A redirect stays on this host.
    assert client.post(f"{CODE}?next=https://evil.example/", {"code": code()})["Location"] == "/admin/"


def test_a_session_ends_when_the_second_factor_changes(client: Client, olga: User) -> None:
    client.force_login(olga)
    assert client.get("/admin/").status_code == 200
    for _ in range(2):
        factor, _ = enable(olga, KEY, step=-1)
        assert locations(client, PAGES) == {LOGIN}
        session = client.session
        session[SESSION_KEY] = str(factor.identifier)
        session.save()
        assert client.get("/admin/").status_code == 200


@pytest.fixture
def verified(client: Client, olga: User, recovery_codes: list[str], clock: list[float]) -> Client:
    """A client of olga, who has signed in with a code a minute ago."""
    sign_in("olga", client=client)
    client.post(CODE, {"code": code()})
    clock.append(NOW + 60)
    return client


def test_recovery_codes_are_renewed_with_a_code(
    verified: Client, recovery_codes: list[str], django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    # The second factor costs a page no query.
    with django_assert_num_queries(2):  # session and user
        assert verified.get("/admin/password_change/").status_code == 200
    assert "Unused recovery codes: 10." in verified.get(OVERVIEW).content.decode()
    assert "This code is wrong" in verified.post(OVERVIEW, {"code": "000000", "renew": ""}).content.decode()
    new = shown_codes(verified.post(OVERVIEW, {"code": code(), "renew": ""}))
    assert SecondFactor.objects.get().recovery_codes == [codes.digest(each) for each in new]
    assert not set(new) & set(recovery_codes)
    assert recorded()[-1] == ("olga", "olga", "127.0.0.1", "Renewed the recovery codes")


def test_it_is_turned_off_with_a_code_where_it_is_not_required(verified: Client, settings: Any) -> None:
    settings.REQUIRE_SECOND_FACTOR = "superusers"
    assert 'name="turn_off"' not in verified.get(OVERVIEW).content.decode()
    assert verified.post(OVERVIEW, {"code": code(), "turn_off": ""}).status_code == 403
    settings.REQUIRE_SECOND_FACTOR = "none"
    verified.post(OVERVIEW, {"code": "000000", "turn_off": ""})
    assert SecondFactor.objects.count() == 1
    assert verified.post(OVERVIEW, {"code": code(), "turn_off": ""})["Location"] == OVERVIEW
    assert SecondFactor.objects.count() == 0
    assert recorded()[-1] == ("olga", "olga", "127.0.0.1", "Disabled the second factor")
    assert "Two-factor authentication is off" in verified.get(OVERVIEW).content.decode()


def test_it_is_replaced_with_a_code_of_the_old_one(verified: Client) -> None:
    key, old = shown_key(verified), SecondFactor.objects.get()
    for current in ("", "000000"):
        assert verified.post(SET_UP, {"new_code": code(key), "code": current}).status_code == 200
    assert SecondFactor.objects.get() == old
    verified.post(SET_UP, {"new_code": code(key), "code": code()})
    assert SecondFactor.objects.get().key == key
    assert verified.get("/admin/").status_code == 200


def test_only_a_superuser_resets_it_for_somebody_else(admin_client: Client, verified: Client, olga: User) -> None:
    page = f"/admin/auth/user/{olga.pk}/reset-second-factor/"
    staff = User.objects.create_user("staff", is_staff=True)
    staff.user_permissions.set(Permission.objects.filter(content_type__model="user"))
    other = Client()
    other.force_login(staff)
    for client in (verified, other):
        assert client.post(page, {"reason": "Why not"}).status_code == 403
    assert page in admin_client.get(f"/admin/auth/user/{olga.pk}/change/").content.decode()
    admin_client.post(page, {"reason": ""})
    assert SecondFactor.objects.count() == 1
    admin_client.post(page, {"reason": "Lost phone"})
    assert SecondFactor.objects.count() == 0
    assert recorded()[-1] == ("admin", "olga", "127.0.0.1", "Reset the second factor: Lost phone")
    assert admin_client.get(page).status_code == 403


def test_a_command_resets_it(olga: User, recovery_codes: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    call_command("reset_second_factor", "olga")
    assert capsys.readouterr().out == "The second factor of olga was reset.\n"
    assert recorded()[-1] == ("reset_second_factor", "olga", "", "Reset the second factor")
    for name, fault in (("olga", "olga has no second factor."), ("nobody", "Unknown user 'nobody'.")):
        with pytest.raises(CommandError, match=fault):
            call_command("reset_second_factor", name)
