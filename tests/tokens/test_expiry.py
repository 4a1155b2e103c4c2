"""Webhooks are notified of tokens that expire soon: 14 and 3 days before expiry."""

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from notifications.models import Delivery, Notification
from relayer_service.models import PeriodicRun
from tokens.models import AccessToken
from tokens.tasks import announce_expiring_tokens
from tokens.writes import issue, rotate

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def hook(db: None) -> Notification:
    return Notification.objects.create(identifier="hook-1", url="https://hooks.example.com", events="token.*")


def announced(days_left: float, expires_at: datetime, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(timezone, "now", lambda: expires_at - timedelta(days=days_left))
    before = len(events())
    PeriodicRun.objects.all().delete()
    announce_expiring_tokens.call_local()
    return len(events()) - before


def events() -> list[Any]:
    return [orjson.loads(bytes(row.body))["data"] for row in Delivery.objects.filter(event="token.expiring")]


def test_a_token_is_announced_twice(hook: Notification, user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    token, _ = issue(name="ci", user=user, expires_at=NOON)
    days = (20, 14.01, 13.99, 13, 4, 2.99, 1, 0, -1)
    assert [announced(left, NOON, monkeypatch) for left in days] == [0, 0, 1, 0, 0, 1, 0, 0, 0]
    assert events() == [{"name": "ci", "token": f"rms_{token.key}", "expires_at": "2026-01-01T12:00:00.000000Z"}] * 2


def test_a_later_expiry_is_announced_again(hook: Notification, user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    issue(name="ci", user=user, expires_at=NOON)
    assert announced(1, NOON, monkeypatch) == 1
    later = NOON + timedelta(days=90)
    AccessToken.objects.update(expires_at=later)
    assert [announced(left, later, monkeypatch) for left in (20, 10, 9)] == [0, 1, 0]


def test_disabled_and_replaced_tokens_are_not_announced(
    hook: Notification, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    issue(name="off", user=user, expires_at=NOON, enabled=False)
    issue(name="for ever", user=user)
    replaced, _ = issue(name="replaced", user=user)
    monkeypatch.setattr(timezone, "now", lambda: NOON - timedelta(days=6))
    # Long enough for both notices.
    rotate(replaced.pk, timedelta(days=6))
    assert [announced(left, NOON, monkeypatch) for left in (5, 2, 1)] == [0, 0, 0]


def test_a_successor_is_announced_like_any_other_token(
    hook: Notification, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, _ = issue(name="ci", user=user, expires_at=NOON)
    assert announced(10, NOON, monkeypatch) == 1
    new = rotate(old.pk).new
    assert [announced(left, NOON, monkeypatch) for left in (9.99, 9, 2, 1)] == [1, 0, 1, 0]
    assert [event["token"] for event in events()] == [f"rms_{token.key}" for token in (new, new, old)]
