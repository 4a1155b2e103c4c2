"""Starting, running and stopping jobs. The worker that holds the lease runs a batch at a time."""

import logging
import time
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction
from django.utils.module_loading import import_string

from relayer_service.audit.actors import ActorKind, acting_as
from relayer_service.background.tasks import periodic, push, task
from relayer_service.database.access import is_unavailable
from relayer_service.database.clock import DatabaseNow, database_now
from relayer_service.jobs.kinds import JobKind, Result, kind
from relayer_service.jobs.models import MAX_FAILURES_NAMED, Job
from relayer_service.observability import tracing
from relayer_service.storage.selections import Selection

logger = logging.getLogger(__name__)

# The lease is longer than a batch takes, and each batch renews it.
LEASE = timedelta(minutes=2)
# The longest run of a task, so that a worker can be stopped at any time.
SLICE_SECONDS = 5
SWEEP_SECONDS = 5
KEEP = timedelta(days=30)
FAULT = "An unexpected error occurred; see the log."
# Reasons why a job was stopped whose token or user could not start it any more.
REVOKED = "the revocation or expiry of its token, or the loss of its scope"
NOT_PERMITTED = "the loss of its user's permission"
NO_USER = "the deletion or renaming of its user"

State = Job.State


class LeaseLostError(Exception):
    """Another worker has the job, or it was stopped."""


def start(
    name: str,
    selection: Selection,
    actor: str,
    *,
    token_key: str = "",
    reason: str = "",
    parameters: dict[str, Any] | None = None,
) -> Job:
    """Start a job of a user, or of the token with this key."""
    chosen = kind(name)
    with transaction.atomic():
        job = Job.objects.create(
            kind=name,
            title=chosen.job_title.format(chosen.counted(len(selection))),
            actor=actor,
            token_key=token_key,
            reason=reason,
            parameters=parameters,
            traceparent=tracing.traceparent.get(),
            selection=str(selection),
            total=len(selection),
            due_at=DatabaseNow(),
        )
        push(run_job, job.pk)
    return job


def stop(job: Job, actor: str) -> None:
    """Stop a job: immediately if it has not started, else after the current batch."""
    waiting = Job.objects.filter(pk=job.pk, state=State.WAITING)
    if not waiting.update(stopped_by=actor, **job.end(State.STOPPED, database_now())):
        Job.objects.filter(pk=job.pk, state=State.RUNNING, stopped_by="").update(stopped_by=actor)


@task()
def run_job(pk: int) -> None:
    """Run a job for a few seconds, unless another worker does."""
    for job in Job.objects.filter(pk=pk).claim(1, LEASE):
        if lost := lost_right(job):
            stop(job, lost)
        try:
            by = ActorKind.TOKEN if job.token_key else ActorKind.USER
            acting = acting_as(by, job.actor, request_id=f"job-{job.pk}", key=job.token_key)
            with acting, tracing.following(job.traceparent):
                is_over = work(job, SLICE_SECONDS)
        except LeaseLostError:
            return
        if not is_over and job.release(DatabaseNow()):
            push(run_job, pk)


def lost_right(job: Job) -> str:
    """Return why its token or user could not start a job any more, or ""."""
    if job.token_key:
        return REVOKED if import_string("tokens.models.is_revoked")(job.token_key) else ""
    user = get_user_model().objects.filter(username=job.actor).first()
    if user is None:
        return NO_USER
    return "" if user.has_perms(kind(job.kind).permissions(job.parameters or {})) else NOT_PERMITTED


@periodic(seconds=SWEEP_SECONDS)
def run_due_jobs() -> None:
    """Continue jobs without a queued task, or whose worker was killed."""
    for pk in Job.objects.all().claimable().values_list("pk", flat=True):
        push(run_job, pk)


@periodic(seconds=60 * 60)
def prune_jobs() -> None:
    """Delete jobs that ended more than 30 days ago."""
    Job.objects.filter(finished_at__lt=DatabaseNow() - KEEP).delete()


def work(job: Job, seconds: float) -> bool:
    """Run batches of a claimed job for the given time; return whether it is over."""
    chosen, selection = kind(job.kind), Selection.parse(job.selection)
    chosen.job_key, chosen.reason, chosen.parameters = job.pk, job.reason, job.parameters or {}
    job.held().filter(state=State.WAITING).update(state=State.RUNNING, started_at=DatabaseNow())
    until = time.monotonic() + seconds
    while not (is_over := _step(job, chosen, selection)) and time.monotonic() < until:
        pass
    return is_over


def _step(job: Job, chosen: JobKind, selection: Selection) -> bool:
    keys = selection.first(chosen.batch_size, after=job.position)
    result = None
    if not chosen.in_transaction and keys:
        stopped_by = job.held().values_list("stopped_by", flat=True).first()
        if stopped_by is None:
            raise LeaseLostError
        result = None if stopped_by else _run(chosen, keys)
    with transaction.atomic():
        current = job.held().select_for_update().defer("selection").first()
        if current is None:
            raise LeaseLostError
        now = database_now()
        if current.stopped_by and result is None:
            changes = job.end(State.STOPPED, now)
        elif not keys:
            changes = job.end(State.FINISHED, now)
        else:
            changes = _progress(current, keys, result or _run(chosen, keys)) | {"due_at": now + LEASE}
            if not selection.first(1, after=keys[-1]):
                changes |= job.end(State.FINISHED, now)
        job.held().update(**changes)
    for name, value in changes.items():
        setattr(job, name, value)
    return job.is_over


def _run(chosen: JobKind, keys: Sequence[int]) -> Result:
    """Run a batch; roll back and count as failed one that raises an unexpected error."""
    try:
        with transaction.atomic() if chosen.in_transaction else nullcontext():
            return chosen.run(keys)
    except Exception as error:
        if is_unavailable(error):
            raise
        logger.exception("A batch of a job failed")
        rows = chosen.model._base_manager.filter(pk__in=keys).order_by("pk")
        named = [(str(row), FAULT) for row in rows[:MAX_FAILURES_NAMED]]
        return Result(0, [*named, *[("", FAULT)] * (len(keys) - len(named))])


def _progress(job: Job, keys: Sequence[int], result: Result) -> dict[str, Any]:
    failed = len(result.failures)
    return {
        "position": keys[-1],
        "done": job.done + result.done,
        "failed": job.failed + failed,
        "skipped": job.skipped + len(keys) - result.done - failed,
        "failures": [*job.failures, *result.failures][:MAX_FAILURES_NAMED],
    }
