"""From the text of a token to its row: what is stored, what a check costs, and when a token stops working."""

import hashlib
import hmac
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.forms.models import model_to_dict
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from tokens import credentials
from tokens.credentials import Credential
from tokens.models import AccessToken, verified_tokens
from tokens.writes import issue

pytestmark = pytest.mark.both_engines

UNAUTHORIZED = {"data": None, "message": "Unauthorized", "success": False}
OLD, NEW = bytes(range(32)), bytes(range(32, 64))


def get(client: Client, text: str) -> Any:
    return client.get("/api/v1/items", headers={"Authorization": f"Bearer {text}"})


def is_accepted(client: Client, text: str) -> bool:
    response = get(client, text)
    if response.status_code == 200:
        return True
    assert (response.status_code, response.json()) == (401, UNAUTHORIZED)
    assert response["WWW-Authenticate"] == "Bearer"
    return False


def parsed(text: str) -> Credential:
    credential = credentials.parse(text)
    assert credential is not None
    return credential


def test_the_row_holds_nothing_of_the_secret(token: str) -> None:
    secret = parsed(token).secret
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM tokens_accesstoken")
        (row,) = cursor.fetchall()
    stored = repr(row)
    assert parsed(token).key in stored
    pieces = [secret[start : start + 6] for start in range(len(secret) - 5)]
    assert [piece for piece in pieces if piece in stored] == []
    assert token[-6:] not in stored


def test_the_digest_is_the_hmac_of_the_secret_under_the_pepper(settings: Any, user: User) -> None:
    settings.TOKEN_PEPPERS = {"a": OLD}
    token = AccessToken(name="fixed", user=user)
    token.set_credential(Credential("0123456789AB", "0123456789ABCDEFGHIJ0123456789ABCDEFGHIJ"))
    assert (token.key, token.pepper_id) == ("0123456789AB", "a")
    assert token.digest == "3912d63ff8f320c2687a35bc7f1285e11d2393c59cf2cad34a82676da223e0af"


def test_nothing_that_shows_a_token_shows_its_secret(user: User) -> None:
    token, text = issue(name="ci", user=user)
    assert str(token) == f"ci (rms_{token.key}_…)"
    assert repr(token) == f"<AccessToken: ci (rms_{token.key}_…)>"
    shown = f"{token} {token!r} {vars(token)} {model_to_dict(token)}"
    assert parsed(text).secret not in shown


@pytest.mark.parametrize(
    "case", ["genuine", "unknown key", "wrong secret", "pepper gone", "other pepper", "inactive user"]
)
def test_every_outcome_costs_the_same_work(
    settings: Any,
    user: User,
    monkeypatch: pytest.MonkeyPatch,
    django_assert_num_queries: DjangoAssertNumQueries,
    case: str,
) -> None:
    token, text = issue(name="ci", user=user)
    credential = parsed(text)
    if case == "unknown key":
        credential = Credential("x" * 12, credential.secret)
    if case == "wrong secret":
        credential = Credential(credential.key, "x" * 40)
    if case == "pepper gone":
        settings.TOKEN_PEPPERS = {"another": NEW}
    if case == "other pepper":
        settings.TOKEN_PEPPERS = {token.pepper_id: NEW}
    if case == "inactive user":
        User.objects.update(is_active=False)
    work: list[str] = []
    new, compare = hmac.new, hmac.compare_digest

    def counted_new(*args: Any, **kwargs: Any) -> Any:
        work.append("digest")
        return new(*args, **kwargs)

    def counted_compare(left: str, right: str) -> bool:
        work.append(f"comparison of {len(left)} and {len(right)}")
        return compare(left, right)

    monkeypatch.setattr(hmac, "new", counted_new)
    monkeypatch.setattr(hmac, "compare_digest", counted_compare)
    with django_assert_num_queries(1):
        found = AccessToken.objects.verify(credential)
    assert found == (token if case == "genuine" else None)
    assert work == ["digest", "comparison of 64 and 64"]


def test_a_mistyped_token_is_refused_without_a_query(
    client: Client, token: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    other = "b" if token[20] == "a" else "a"
    with django_assert_num_queries(0):
        assert not is_accepted(client, token[:20] + other + token[21:])


def test_a_good_token_is_answered_however_many_others_were_refused_from_its_address(
    client: Client, token: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(40):
        unknown = Credential(f"{number:012d}", "x" * 40).reveal()
        with django_assert_num_queries(1):
            assert not is_accepted(client, unknown)
    assert is_accepted(client, token)


def disable_and_save(token: AccessToken) -> None:
    token.enabled = False
    token.save(update_fields=["enabled"])


def expire_and_save(token: AccessToken) -> None:
    token.expires_at = timezone.now() - timedelta(seconds=1)
    token.save()


def restrict_and_save(token: AccessToken) -> None:
    token.allowed_networks = ["192.0.2.0/24"]
    token.save()


REVOCATIONS: list[Callable[[AccessToken], Any]] = [
    disable_and_save,
    expire_and_save,
    restrict_and_save,
    lambda token: token.delete(),
    lambda token: AccessToken.objects.filter(pk=token.pk).disable(),
    lambda token: AccessToken.objects.filter(pk=token.pk).delete(),
    lambda token: AccessToken.objects.filter(user=token.user).disable(),
]


@pytest.mark.parametrize("revoke", REVOCATIONS)
def test_a_token_revoked_in_this_process_is_refused_at_once(
    client: Client, user: User, revoke: Callable[[AccessToken], Any]
) -> None:
    row, text = issue(name="ci", user=user)
    other = issue(name="other", user=User.objects.create_user("bob"))[1]
    assert is_accepted(client, text)
    revoke(AccessToken.objects.get(pk=row.pk))
    assert not is_accepted(client, text)
    assert is_accepted(client, other)


def test_a_token_verified_before_its_revocation_commits_is_rejected_after_it(
    client: Client, transactional_db: None
) -> None:
    row, text = issue(name="ci", user=User.objects.create_user("alice"))
    before = AccessToken.objects.select_related("user").get(pk=row.pk)
    digest = hashlib.sha256(text.encode()).digest()
    with transaction.atomic():
        AccessToken.objects.filter(pk=row.pk).disable()
        # What another thread does that still sees the row as it was.
        verified_tokens.get_or_read(digest, lambda: before, 60)
    assert not is_accepted(client, text)


def test_a_token_that_is_revoked_while_it_is_verified_is_refused_after_it(client: Client, user: User) -> None:
    row, text = issue(name="ci", user=user)

    def revoke_meanwhile() -> AccessToken:
        before: AccessToken = AccessToken.objects.select_related("user").get(pk=row.pk)
        AccessToken.objects.filter(pk=row.pk).disable()
        return before

    verified_tokens.get_or_read(hashlib.sha256(text.encode()).digest(), revoke_meanwhile, 60)
    assert not is_accepted(client, text)


def test_all_tokens_cannot_be_deleted_by_a_slip_of_the_pen(token: str) -> None:
    assert not hasattr(AccessToken.objects, "delete")


def change_behind(token: AccessToken) -> None:
    """Disable a token as another process would."""
    AccessToken.objects.filter(pk=token.pk).update(enabled=False)


def deactivate_user(token: AccessToken) -> None:
    User.objects.filter(pk=token.user_id).update(is_active=False)


def delete_user(token: AccessToken) -> None:
    User.objects.get(pk=token.user_id).delete()


@pytest.mark.parametrize("revoke", [change_behind, deactivate_user, delete_user])
def test_what_another_process_revoked_is_refused_after_the_cache_time(
    client: Client,
    user: User,
    monkeypatch: pytest.MonkeyPatch,
    revoke: Callable[[AccessToken], None],
) -> None:
    row, text = issue(name="ci", user=user)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert is_accepted(client, text)
    revoke(row)
    monkeypatch.setattr(time, "monotonic", lambda: now + 4.9)
    assert is_accepted(client, text)
    monkeypatch.setattr(time, "monotonic", lambda: now + 5)
    assert not is_accepted(client, text)


def test_a_token_that_expires_while_it_is_remembered_is_refused(
    client: Client, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = timezone.now()
    text = issue(name="ci", user=user, expires_at=now + timedelta(seconds=1))[1]
    monkeypatch.setattr(timezone, "now", lambda: now)
    assert is_accepted(client, text)
    monkeypatch.setattr(timezone, "now", lambda: now + timedelta(seconds=1))
    assert not is_accepted(client, text)


def test_the_memory_of_verified_tokens_holds_no_secret(client: Client, token: str) -> None:
    assert is_accepted(client, token)
    assert parsed(token).secret not in repr(vars(verified_tokens))
    assert parsed(token).secret.encode() not in b"".join(verified_tokens._entries)


@pytest.mark.parametrize("networks", ["10.0.0.0/8", [1], {"a": "b"}, ["10.0.0.1/8"], ["home"]])
def test_allowed_networks_are_checked_when_a_token_is_issued(user: User, networks: Any) -> None:
    with pytest.raises(ValidationError):
        issue(name="ci", user=user, allowed_networks=networks)
    assert AccessToken.objects.count() == 0
