"""Work on due rows of any model: each is claimed, worked on and written once, whatever the others do."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models import F
from django.utils import timezone

from relayer_service.background.leased_work import LeasedWork
from tests.sample.models import Job

LEASE = timedelta(minutes=1)


def one_at_a_time(jobs: list[Job]) -> list[list[Job]]:
    return [[job] for job in jobs]


def run(batch: list[Job]) -> list[Job]:
    if batch[0].seconds == 13:
        raise RuntimeError("unlucky")
    return batch


def write(jobs: list[Job]) -> None:
    Job.objects.held(jobs).update(done=F("done") + 1, due_at=None, lease=None)


@pytest.mark.django_db
def test_due_rows_are_worked_on_once_and_those_that_fail_keep_their_lease(caplog: pytest.LogCaptureFixture) -> None:
    now = timezone.now()
    for seconds in (1, 2, 2, 13, 2):
        Job.objects.create(due_at=now, seconds=seconds)
    later = Job.objects.create(due_at=now + LEASE)
    work = LeasedWork(
        pool_name="sample",
        threads=lambda: 2,
        rows=Job.objects.all,
        lease_length=lambda: LEASE,
        queue_columns=["seconds"],
        batches=one_at_a_time,
        run=run,
        write=write,
    )
    assert work.run_due() == 5
    assert work.run_due() == 0
    assert list(Job.objects.order_by("pk").values_list("done", flat=True)) == [1, 1, 1, 0, 1, 0]
    (failed,) = Job.objects.filter(Job.leased())
    assert (failed.seconds, Job.objects.get(pk=later.pk).lease) == (13, None)
    assert [record.getMessage() for record in caplog.records] == ["Processing 1 rows failed (sample)"]
