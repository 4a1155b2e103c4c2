"""Work on jobs as the service's own tasks do: rows are the truth, a sweep finds what is due."""

import time
from datetime import timedelta

from django.db.models import F

from relayer_service.background.tasks import periodic, push, task
from relayer_service.database.access import release_connection
from tests.sample.models import Job

LEASE = timedelta(seconds=4)


@task()
def do_job(job_id: int) -> None:
    for job in Job.objects.filter(pk=job_id).claim(1, LEASE):
        end = time.monotonic() + job.seconds
        # A test may let it end before.
        while time.monotonic() < end and Job.objects.filter(pk=job.pk, seconds__gt=0).exists():
            release_connection()
            time.sleep(0.1)
        job.release(None, done=F("done") + 1)


@periodic(seconds=1)
def sweep_jobs() -> None:
    for job in Job.objects.claimable()[:1000]:
        push(do_job, job.pk)
