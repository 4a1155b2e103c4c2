"""Deployment checks of what the database promises."""

from __future__ import annotations

import pytest
from django.core.checks import CheckMessage
from django.db import connection

from transactions import checks

pytestmark = [pytest.mark.django_db]


def identifiers(messages: list[CheckMessage]) -> list[str | None]:
    return [message.id for message in messages]


def test_a_server_that_can_lose_commits_is_an_error() -> None:
    is_off = False
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SHOW fsync")
            is_off = cursor.fetchone()[0] == "off"
    expected = ["transactions.E001"] if is_off else []
    assert identifiers(checks.check_durability(databases=["default"])) == expected
    assert checks.check_durability() == []


def test_a_server_that_does_not_reveal_its_identity_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    assert checks.check_identity(databases=["default"]) == []
    monkeypatch.setattr(checks, "database_identity", lambda: "")
    expected = ["transactions.W001"] if connection.vendor == "postgresql" else []
    assert identifiers(checks.check_identity(databases=["default"])) == expected
    assert checks.check_identity() == []
