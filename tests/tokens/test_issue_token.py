"""`manage.py issue_token`: the token alone on standard output, and one clear line for each mistake."""

import io
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from tokens import credentials
from tokens.models import AccessToken


def issue(*arguments: str) -> tuple[str, str]:
    """Run the command as from a shell; return what it wrote to standard output and standard error."""
    output, errors = io.StringIO(), io.StringIO()
    call_command("issue_token", *arguments, stdout=output, stderr=errors)
    return output.getvalue(), errors.getvalue()


def test_standard_output_has_only_the_token(user: User) -> None:
    output, errors = issue("ci", "--user", "alice")
    credential = credentials.parse(output.removesuffix("\n"))
    assert credential is not None
    assert output == credential.reveal() + "\n"
    assert errors == ("Permissions: list and create signers, list relayers, change webhooks, make JSON-RPC calls.\n")
    token = AccessToken.objects.verify(credential)
    assert token is not None
    limits = (token.enabled, token.expires_at, token.allowed_networks)
    assert (token.name, token.user, *limits) == ("ci", user, True, None, [])


def test_the_only_superuser_need_not_be_named(user: User) -> None:
    admin = User.objects.create_superuser("root")
    issue("ci")
    assert AccessToken.objects.get().user == admin
    User.objects.create_superuser("second")
    with pytest.raises(CommandError, match="specify the token's user with --user"):
        issue("ci")


def test_the_limits_of_a_token_are_options(settings: Any, user: User) -> None:
    settings.EXTENSIONS = ["transactions"]
    before = timezone.now()
    scopes = ("--scope", "read", "--scope", "send", "--relayer", "payments-1")
    networks = ("--cidr", "10.0.0.0/8", "--cidr", "2001:db8::1")
    _, errors = issue("ci", "--user", "alice", "--days", "30", *scopes, *networks)
    token = AccessToken.objects.get()
    assert (token.scopes, token.allowed_relayers) == (["read", "send"], ["payments-1"])
    assert token.allowed_networks == ["10.0.0.0/8", "2001:db8::1"]
    assert token.expires_at is not None
    assert before + timedelta(days=30) <= token.expires_at <= timezone.now() + timedelta(days=30)
    assert errors == (
        "Permissions: list, read and estimate fees; "
        "send transactions, and read the relayers that send them (only payments-1).\n"
    )


def test_a_token_that_manages_some_relayers_is_described_as_such(settings: Any, user: User) -> None:
    settings.EXTENSIONS = ["lifecycle"]
    _, errors = issue("ci", "--user", "alice", "--scope", "manage", "--relayer", "payments-1")
    assert errors == (
        "Permissions: list, read and estimate fees; change names and policies, pause and resume (only payments-1).\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Error: the following arguments are required: name"),
        (["ci", "--user", "ghost"], "no active user 'ghost'"),
        (["ci", "--user", "gone"], "no active user 'gone'"),
        (["ci"], "specify the token's user with --user"),
        (["ci", "--user", "alice", "--days", "0"], "--days must be between 1 and 36500"),
        (["ci", "--user", "alice", "--days", "36501"], "--days must be between 1 and 36500"),
        (["ci", "--user", "alice", "--days", "soon"], "Error: argument --days: invalid int value: 'soon'"),
        (
            ["ci", "--user", "alice", "--cidr", "10.0.0.0/8", "--cidr", "home"],
            "--cidr: 'home' is not an address or a CIDR network.",
        ),
        (
            ["ci", "--user", "alice", "--scope", "send"],
            "Error: argument --scope: the scope 'send' requires the extension 'transactions'",
        ),
        (
            ["ci", "--user", "alice", "--scope", "all"],
            "Error: argument --scope: unknown scope 'all': use one of read, manage",
        ),
        (["", "--user", "alice"], "name: This field cannot be blank."),
        (
            ["n" * 101, "--user", "alice"],
            "name: Ensure this value has at most 100 characters (it has 101).",
        ),
    ],
)
def test_a_mistake_is_one_clear_line_and_creates_nothing(user: User, arguments: list[str], message: str) -> None:
    User.objects.create_user("gone", is_active=False)
    with pytest.raises(CommandError) as raised:
        issue(*arguments)
    assert str(raised.value) == message
    assert AccessToken.objects.count() == 0
