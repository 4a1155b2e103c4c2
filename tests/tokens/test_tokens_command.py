"""`manage.py tokens`: tokens without the admin."""

import io
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from relayer_service.models import AuditEntry
from tokens import credentials
from tokens.models import AccessToken
from tokens.writes import issue


def run(*arguments: str) -> str:
    output = io.StringIO()
    call_command("tokens", *arguments, stdout=output)
    return output.getvalue()


def test_tokens_are_listed_without_their_secrets(user: User) -> None:
    moment = datetime(2030, 1, 2, 3, 4, tzinfo=UTC)
    first, text = issue(name="ci", user=user, scopes=["read", "send"], expires_at=moment)
    second, _ = issue(name="old", user=user, enabled=False)
    lines = [re.split(r"  +", line) for line in run("list").splitlines()]
    assert lines == [
        ["token", "name", "user", "state", "expires", "last use", "pepper", "permissions"],
        [
            *(f"rms_{first.key}_…", "ci", "alice", "active", "2030-01-02 03:04", "never", "1"),
            "list, read and estimate fees (without effect: send)",
        ],
        [
            *(f"rms_{second.key}_…", "old", "alice", "disabled", "never", "never", "1"),
            "list and create signers, list relayers, change webhooks, make JSON-RPC calls",
        ],
    ]
    assert text[17:] not in run("list")


def test_a_token_is_issued_as_by_issue_token(user: User) -> None:
    text = run("issue", "ci", "--user", "alice", "--scope", "manage", "--days", "30")
    credential = credentials.parse(text.removesuffix("\n"))
    assert credential
    token = AccessToken.objects.verify(credential)
    assert token
    assert (token.name, token.scopes, token.expires_at is None) == ("ci", ["manage"], False)


@pytest.mark.parametrize("typed", ["{key}", "rms_{key}", "rms_{key}_…"])
def test_a_token_is_rotated_with_an_overlap(user: User, typed: str) -> None:
    rights = {"scopes": ["manage"], "allowed_networks": ["10.0.0.0/8"], "allowed_relayers": ["a"]}
    old, _ = issue(name="ci", user=user, **rights)
    before = timezone.now()
    text = run("rotate", typed.format(key=old.key), "--overlap-hours", "2")
    credential = credentials.parse(text.removesuffix("\n"))
    assert credential
    new = AccessToken.objects.verify(credential)
    assert new
    assert {name: getattr(new, name) for name in rights} == rights
    assert (new.name, new.user, new.expires_at) == ("ci", user, None)
    old.refresh_from_db()
    assert old.expires_at
    assert before + timedelta(hours=2) <= old.expires_at <= timezone.now() + timedelta(hours=2)
    entry = AuditEntry.objects.filter(object_pk=str(old.pk), action="changed").get()
    assert (entry.actor, entry.reason) == ("tokens rotate", f"Replaced by {new}.")


def test_a_replaced_token_is_not_rotated_again(user: User) -> None:
    old, _ = issue(name="ci", user=user)
    run("rotate", old.key)
    new = AccessToken.objects.latest("pk")
    with pytest.raises(CommandError, match="the token was already replaced: rotate its replacement"):
        run("rotate", old.key)
    assert AccessToken.objects.count() == 2
    run("rotate", new.key)
    assert AccessToken.objects.count() == 3


def test_a_rotated_token_expires_when_it_is_asked_to(user: User) -> None:
    old, _ = issue(name="ci", user=user, expires_at=timezone.now() + timedelta(days=10))
    run("rotate", old.key, "--days", "90")
    expires_at = AccessToken.objects.latest("pk").expires_at
    assert expires_at is not None
    assert timedelta(days=89) < expires_at - timezone.now() <= timedelta(days=90)


def test_a_token_is_revoked_with_its_successors(user: User) -> None:
    token, _ = issue(name="ci", user=user)
    run("rotate", token.key)
    revoked = f"Revoked: {token}, with its successors (1). Every process rejects it within seconds.\n"
    assert run("revoke", token.key) == revoked
    assert not AccessToken.objects.filter(enabled=True).exists()


def test_a_token_is_revoked_without_its_successors(user: User) -> None:
    token, _ = issue(name="ci", user=user)
    run("rotate", token.key)
    new = AccessToken.objects.latest("pk")
    accepted = f"Every process rejects it within seconds. Its successors are still accepted: {new}.\n"
    assert run("revoke", token.key, "--only") == f"Revoked: {token}. {accepted}"
    assert AccessToken.objects.get(enabled=True) == new


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["rotate", "000000000000"], "unknown token: rms_000000000000_…"),
        (["rotate", "short"], "must be the public part of a token, as shown by `tokens list`"),
        (["rotate", "000000000000", "--overlap-hours", "-1"], "--overlap-hours must be between 0 and 8760"),
        (["rotate", "000000000000", "--days", "0"], "--days must be between 1 and 36500"),
    ],
)
def test_a_mistake_is_one_line(db: None, arguments: list[str], fault: str) -> None:
    with pytest.raises(CommandError, match=fault.replace("(", "\\(")):
        run(*arguments)
