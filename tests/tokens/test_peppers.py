"""Peppers: a lost or wrong one is visible, and one is rotated without new tokens."""

from __future__ import annotations

import io
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.checks import Tags, run_checks
from django.core.management import call_command
from django.db import DatabaseError, connection
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from tokens import credentials, writes
from tokens.models import AccessToken, verified_tokens

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
LOST = "the pepper 'old' is missing from TOKEN_PEPPERS"
WRONG = "the pepper 'old' has a different value in TOKEN_PEPPERS"


def is_accepted(client: Client, text: str) -> bool:
    verified_tokens.clear()
    response = client.get("/api/v1/items", headers={"Authorization": f"Bearer {text}"})
    assert response.status_code in {200, 401}
    return response.status_code == 200


def issue(user: User, **fields: Any) -> tuple[AccessToken, str]:
    return writes.issue(**{"name": "ci", "user": user} | fields)


@pytest.mark.parametrize(("peppers", "problem"), [({"new": NEW}, LOST), ({"old": NEW}, WRONG)])
def test_tokens_that_no_pepper_verifies_are_named(
    settings: Any,
    client: Client,
    user: User,
    caplog: pytest.LogCaptureFixture,
    peppers: dict[str, bytes],
    problem: str,
) -> None:
    settings.TOKEN_PEPPERS = {"old": OLD}
    token, _ = issue(user)
    # Nobody misses these.
    issue(user, name="disabled", enabled=False)
    issue(user, name="expired", expires_at=timezone.now() - timedelta(days=1))
    assert client.get("/ready").json()["parts"]["peppers"] == "ok"
    assert run_checks(tags=[Tags.database], databases=["default"]) == []
    settings.TOKEN_PEPPERS = peppers
    issue(user, name="of now")
    named = f"No pepper verifies these tokens: rms_{token.key}_…: {problem}."
    response = client.get("/ready")
    assert (response.status_code, response.json()["parts"]["peppers"]) == (503, "failed")
    assert response.json()["notes"] == [named]
    assert f"The readiness probe of peppers failed: {named}" in [record.getMessage() for record in caplog.records]
    (error,) = run_checks(tags=[Tags.database], databases=["default"])
    assert (error.id, error.msg) == ("tokens.E001", named)


def test_the_list_names_the_pepper_of_each_token_and_which_are_lost(settings: Any, user: User) -> None:
    settings.TOKEN_PEPPERS = {"old": OLD}
    token, _ = issue(user)
    settings.TOKEN_PEPPERS = {"new": NEW}
    issue(user)
    output = io.StringIO()
    call_command("tokens", "list", stdout=output)
    lines = output.getvalue().splitlines()
    assert [" old (lost) " in lines[1], " new " in lines[2]] == [True, True]
    assert lines[3:] == ["", "No pepper verifies these tokens:", f"  {token}: {LOST}"]


def test_a_pepper_is_rotated_while_processes_with_the_settings_before_and_after_run(
    settings: Any, client: Client, user: User
) -> None:
    """Append, restart, promote, restart, and remove it when no token has the old one."""
    texts = []
    steps = [{"old": OLD}, {"old": OLD, "new": NEW}, {"new": NEW, "old": OLD}]
    for before, after in pairwise(steps):
        for peppers in (before, after):
            settings.TOKEN_PEPPERS = peppers
            texts.append(issue(user)[1])
        for peppers in (before, after, before, after):
            settings.TOKEN_PEPPERS = peppers
            assert all(is_accepted(client, text) for text in texts)
            assert not AccessToken.objects.unverifiable().exists()
    assert {token.pepper_id for token in AccessToken.objects.all()} == {"new"}
    settings.TOKEN_PEPPERS = {"new": NEW}
    assert all(is_accepted(client, text) for text in texts)
    assert not AccessToken.objects.unverifiable().exists()


def test_a_token_is_hashed_under_the_first_pepper_once_at_its_next_use(
    settings: Any, user: User, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    settings.TOKEN_PEPPERS = {"old": OLD}
    token, text = issue(user)
    credential = credentials.parse(text)
    assert credential
    settings.TOKEN_PEPPERS = {"new": NEW, "old": OLD}
    wrong = credentials.Credential(credential.key, "x" * 40)
    with django_assert_num_queries(1):
        assert AccessToken.objects.verify(wrong) is None
    with django_assert_num_queries(2):
        assert AccessToken.objects.verify(credential) == token
    with django_assert_num_queries(1):
        assert AccessToken.objects.verify(credential) == token


def test_a_token_of_the_last_release_gets_its_fingerprint_at_its_next_use(
    settings: Any, client: Client, user: User
) -> None:
    settings.TOKEN_PEPPERS = {"old": OLD}
    token, text = issue(user)
    AccessToken.objects.update(pepper_fingerprint="")
    settings.TOKEN_PEPPERS = {"old": NEW}
    # Nothing is known of it yet.
    assert not AccessToken.objects.unverifiable().exists()
    settings.TOKEN_PEPPERS = {"old": OLD}
    assert is_accepted(client, text)
    settings.TOKEN_PEPPERS = {"old": NEW}
    assert AccessToken.objects.unverifiable().get() == token


def test_a_genuine_token_is_accepted_though_it_cannot_be_hashed_anew(
    transactional_db: None, settings: Any, client: Client, user: User, caplog: pytest.LogCaptureFixture
) -> None:
    settings.TOKEN_PEPPERS = {"old": OLD}
    token, text = issue(user)

    def read_only(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith("UPDATE"):
            raise DatabaseError("cannot execute UPDATE in a read-only transaction")
        return execute(sql, *rest)

    settings.TOKEN_PEPPERS = {"new": NEW, "old": OLD}
    with connection.execute_wrapper(read_only):
        assert is_accepted(client, text)
    assert AccessToken.objects.get().pepper_id == "old"
    assert f"The token {token} could not be rehashed with the first pepper" in caplog.text
