"""How long an entry stays in the audit log."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from relayer_service.audit import models
from relayer_service.background.tasks import prune_audit_log
from relayer_service.models import AuditEntry, PeriodicRun

pytestmark = pytest.mark.django_db


def days_ago(*days: float) -> None:
    now = timezone.now()
    AuditEntry.objects.bulk_create(AuditEntry(at=now - timedelta(days=each), object_id=str(each)) for each in days)


def left() -> list[str]:
    return list(AuditEntry.objects.values_list("object_id", flat=True))


def test_what_is_older_than_its_retention_goes(settings: Settings) -> None:
    settings.AUDIT_KEEP_DAYS = 30
    days_ago(0, 29.9, 30.1, 400)
    prune_audit_log.call_local()
    assert left() == ["0", "29.9"]
    assert PeriodicRun.objects.get(name="prune_audit_log").finished_at


def test_many_go_a_batch_at_a_time(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.AUDIT_KEEP_DAYS = 30
    monkeypatch.setattr(models, "PRUNE_BATCH_SIZE", 2)
    days_ago(1, 31, 32, 33, 34, 35)
    AuditEntry.objects.prune()
    assert left() == ["1"]


def test_with_0_nothing_goes(settings: Settings) -> None:
    settings.AUDIT_KEEP_DAYS = 0
    days_ago(40_000)
    AuditEntry.objects.prune()
    assert left() == ["40000"]
