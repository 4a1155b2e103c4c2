"""How long an entry stays in the audit log."""

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


def test_what_is_older_than_its_retention_goes_a_batch_at_a_time(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "PRUNE_BATCH_SIZE", 2)
    days_ago(0, 29.9, 30.1, 31, 32, 33, 40_000)
    settings.AUDIT_KEEP_DAYS = 0
    AuditEntry.objects.prune()
    assert len(left()) == 7
    settings.AUDIT_KEEP_DAYS = 30
    prune_audit_log.call_local()
    assert left() == ["0", "29.9"]
    assert PeriodicRun.objects.get(name="prune_audit_log").finished_at
