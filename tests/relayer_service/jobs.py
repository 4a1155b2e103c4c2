"""Jobs as a worker runs them."""

from typing import Any

from django.contrib.auth.models import User

from relayer_service.jobs import running
from relayer_service.models import Job
from relayer_service.storage.selections import Selection


def start_job(kind: str, selection: Selection, actor: str = "olga", **options: Any) -> Job:
    """Start a job of a superuser."""
    User.objects.get_or_create({"is_superuser": True}, username=actor)
    return running.start(kind, selection, actor, **options)


def run_jobs() -> None:
    """Run every job that is due, to its end."""
    while due := list(Job.objects.all().claimable().values_list("pk", flat=True)):
        for pk in due:
            running.run_job.call_local(pk)
