"""One clock for all workers: what a worker does whose own is two hours ahead or behind."""

import time
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from notifications.delivery import outbox
from notifications.models import Delivery
from relayer_service import models
from relayer_service.background import tasks
from relayer_service.database.clock import DatabaseNow, database_now
from relayer_service.jobs import running
from relayer_service.models import Job, PeriodicRun
from relayer_service.storage.selections import Selection
from relayers.health.checking import check_due
from relayers.models import Relayer, RelayerHealth
from relayers.tasks import check_soon
from tests.notifications.factories import create_notification, emit_test, exchange, outcome
from tests.relayer_service.jobs import start_job
from tests.relayers import factories
from tests.relayers.health_checks import on_nodes

pytestmark = [pytest.mark.django_db, pytest.mark.both_engines]

Moment = Callable[[], datetime]
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
MINE = uuid.UUID(int=1)


@pytest.fixture(params=[-2, 2], ids=["behind", "ahead"])
def true_time(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Moment:
    """Shift the clock of this process by two hours, and return what tells the true time."""
    true_now, true_seconds, shift = timezone.now, time.time, timedelta(hours=request.param)
    monkeypatch.setattr(timezone, "now", lambda: true_now() + shift)
    monkeypatch.setattr(time, "time", lambda: true_seconds() + shift.total_seconds())
    return true_now


def assert_about(moment: datetime | None, before: datetime, after: datetime) -> None:
    """Assert that a moment lies between two; SQLite's clock counts milliseconds."""
    margin = timedelta(milliseconds=1)
    assert moment is not None
    assert before - margin <= moment <= after + margin


def test_a_slot_in_the_future_is_logged_and_overruled(caplog: pytest.LogCaptureFixture) -> None:
    now = database_now()
    ahead = int(now.timestamp()) // 3600 + 2
    PeriodicRun.objects.create(name="sweep", slot=ahead, started_at=now)
    claim = PeriodicRun.objects.claim("sweep", 3600)
    assert claim is not None
    assert PeriodicRun.objects.get().slot == claim.slot < ahead
    assert [record.getMessage() for record in caplog.records] == [
        "Periodic work sweep was last claimed for a time in the future; running it now"
    ]


def test_a_worker_that_stalls_does_not_overrule_a_later_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = PeriodicRun.objects.claim("sweep", 10)
    assert claim
    times = iter([claim.started_at - HOUR, claim.started_at])
    monkeypatch.setattr(models, "database_now", lambda: next(times))
    assert PeriodicRun.objects.claim("sweep", 10) is None
    assert PeriodicRun.objects.get().slot == claim.slot


@pytest.mark.django_db(transaction=True)
def test_periodic_work_is_run_by_a_worker_whose_clock_is_ahead() -> None:
    tasks.queue.enqueue(tasks.heartbeat.s())
    two_hours_ahead = timezone.now().replace(tzinfo=None) + 2 * HOUR
    tasks.queue.execute(tasks.queue.dequeue(), two_hours_ahead)
    assert PeriodicRun.objects.get().finished_at


def test_health_checks_and_their_leases_keep_to_the_databases_clock(true_time: Moment, settings: Settings) -> None:
    settings.HEALTH_CHECK_SECONDS = 60
    before = true_time()
    on_nodes(identifier="due", due_at=before - SECOND)
    on_nodes(identifier="later", due_at=before + HOUR)
    new = factories.relayer(identifier="new")
    assert_about(Relayer.objects.get(pk=new.pk).health.due_at, before, true_time())
    new.delete()
    (claimed,) = RelayerHealth.objects.select_related("relayer").claim(10, HOUR)
    assert_about(claimed.leased_until, before + HOUR, true_time() + HOUR)
    assert (check_due(), check_soon([claimed.pk])) == (0, 0)
    claimed.release(DatabaseNow())
    assert check_due() == 1
    checked = RelayerHealth.objects.get(relayer__identifier="due")
    assert_about(checked.checked_at, before, true_time())
    assert_about(checked.due_at, before + timedelta(seconds=54), true_time() + timedelta(seconds=66))
    assert check_soon([checked.pk]) == 1
    assert check_due() == 1


def test_webhooks_are_sent_and_sent_again_by_the_databases_clock(
    true_time: Moment, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.WEBHOOK_SCHEDULE = [0, 60]
    monkeypatch.setattr("notifications.delivery.posting.JITTER", 0)
    notification = create_notification()
    before = true_time()
    emit_test(notification)
    assert outbox.due_targets() == [notification.pk]
    (row,) = exchange(notification, lease=MINE)
    assert_about(row.due_at, before + outbox.lease_length(), true_time() + outbox.lease_length())
    # Neither is the lease of another over, nor is what is claimed due again.
    assert (exchange(notification, lease=uuid.UUID(int=2)), outbox.due_targets()) == ([], [])
    exchange(notification, outcome(row, 500), lease=MINE)
    minute = timedelta(minutes=1)
    assert_about(Delivery.objects.get().due_at, before + minute, true_time() + minute)
    assert outbox.due_targets() == []


def test_jobs_and_slots_keep_to_the_databases_clock(true_time: Moment) -> None:
    relayer = factories.relayer()
    before = true_time()
    job = start_job("check_relayers", Selection.from_keys([relayer.pk]))
    (claimed,) = Job.objects.all().claim(1, HOUR)
    assert_about(claimed.due_at, before + HOUR, true_time() + HOUR)
    assert Job.objects.all().claim(1, HOUR) == []
    claimed.release(DatabaseNow())
    running.run_job.call_local(job.pk)
    job.refresh_from_db()
    assert job.state == "finished"
    assert_about(job.finished_at, before, true_time())
    before = true_time()
    claim = PeriodicRun.objects.claim("sweep", 10)
    assert claim is not None
    assert int(before.timestamp()) // 10 <= claim.slot <= int(true_time().timestamp()) // 10
    assert_about(claim.started_at, before, true_time())
    with claim.recorded():
        pass
    assert_about(PeriodicRun.objects.get(name="sweep").finished_at, before, true_time())
