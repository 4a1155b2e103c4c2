"""Jobs as a worker runs them."""

from relayer_service.jobs import running
from relayer_service.models import Job


def run_jobs() -> None:
    """Run every job that is due, to its end."""
    while due := list(Job.objects.all().claimable().values_list("pk", flat=True)):
        for pk in due:
            running.run_job.call_local(pk)
