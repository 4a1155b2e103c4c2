"""A job in a real worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from relayer_service.models import Job
from relayer_service.storage.selections import Selection
from relayers.models import Relayer
from tests import processes
from tests.concurrency import wait_until
from tests.relayer_service.jobs import start_job
from tests.relayers import factories


@pytest.mark.django_db(transaction=True)
def test_a_worker_finds_a_job_and_goes_on_after_another_was_killed(tmp_path: Path) -> None:
    for number in range(3):
        factories.relayer(identifier=f"r-{number}", due_at=None)
    job = start_job("check_relayers", Selection.from_queryset(Relayer.objects.all()))
    # As a killed worker leaves it: begun, and due again now that its lease is over.
    first = Relayer.objects.order_by("pk")[0]
    Job.objects.update(state="running", position=first.pk, done=1)
    with (tmp_path / "log").open("wb") as log:
        worker = processes.worker(log, TASK_QUEUE_URL=f"sqlite:{tmp_path}/tasks.sqlite3")
        try:
            wait_until(lambda: Job.objects.get().is_over)
        finally:
            processes.stop(worker)
    job.refresh_from_db()
    assert (job.state, job.done, job.failed) == ("finished", 3, 0)
    first.refresh_from_db()
    assert (first.health.due_at, first.health.checked_at) == (None, None)
