"""Background work in the admin: jobs, which staff start, watch and stop; and the last runs of periodic work."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.html import format_html
from unfold.decorators import display

from relayer_service.console import confirmation
from relayer_service.console.base import ReadOnlyAdmin
from relayer_service.console.confirmation import PendingAction, ReasonForm, Table
from relayer_service.console.dates import ago_titled, exact
from relayer_service.console.overview.dashboard import alarm, label
from relayer_service.console.overview.dashboard import link as text_link
from relayer_service.console.panels import Panel, object_view
from relayer_service.console.references import and_more
from relayer_service.jobs import running
from relayer_service.jobs.kinds import kind, kinds
from relayer_service.models import Job, PeriodicRun

VARIANTS: dict[str, str] = {
    Job.State.WAITING: "info",
    Job.State.RUNNING: "info",
    Job.State.STOPPED: "warning",
    Job.State.FINISHED: "success",
}


def ask_or_start(
    request: HttpRequest,
    model_admin: Any,
    pending: PendingAction,
    name: str,
    table: Table,
    texts: Sequence[str] = (),
    skipped: int = 0,
    form: ReasonForm | None = None,
) -> HttpResponse:
    """Return the confirmation page of a job that skips `skipped` rows, or start the job once it is confirmed."""
    chosen = kind(name)
    if not pending.is_confirmed or (form and not form.is_valid()):
        explanation = chosen.explanation.format(chosen.counted(len(pending.selection) - skipped))
        return confirmation.ask(request, model_admin, pending, chosen.title, [explanation, *texts], table, form)
    reason = form.cleaned_data["reason"] if form else ""
    announce(request, model_admin, running.start(name, pending.selection, request.user.get_username(), reason=reason))
    return pending.leave()


def announce(request: HttpRequest, model_admin: Any, job: Job) -> None:
    page = reverse("admin:relayer_service_job_change", args=[job.pk])
    text = format_html("Started in the worker: {}. {}.", job, text_link("View its progress", page))
    model_admin.message_user(request, text, messages.SUCCESS)


def visible_kinds(request: HttpRequest) -> list[str]:
    may_see_all = request.user.has_perm("relayer_service.view_job")
    return [name for name, each in kinds().items() if may_see_all or request.user.has_perm(each.view_permission)]


def may_see_jobs(request: HttpRequest) -> bool:
    return bool(visible_kinds(request))


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    list_display = ["title", "shown_state", "progress", "starter", "created", "finished"]
    ordering = ["-id"]
    # The audit log has the changes of a job under the rows.
    has_history = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        jobs: QuerySet[Job] = super().get_queryset(request)
        return jobs.filter(kind__in=visible_kinds(request)).defer("selection")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # `get_queryset` excludes the jobs that the user may not view.
        return may_see_jobs(request)

    has_module_permission = has_view_permission

    def has_stop_permission(self, request: HttpRequest, job: Job) -> bool:
        return request.user.has_perm(kind(job.kind).permission)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return []

    @display(description="state")
    def shown_state(self, job: Job) -> str:
        return label(job.state, VARIANTS[job.state])

    @display(description="progress")
    def progress(self, job: Job) -> str:
        return f"{job.taken:,} of {job.total:,}"

    @display(description="started by")
    def starter(self, job: Job) -> str:
        return job.started_by

    @display(description="created")
    def created(self, job: Job) -> str:
        return exact(job.created_at)

    @display(description="finished")
    def finished(self, job: Job) -> str:
        return exact(job.finished_at)


@admin.register(PeriodicRun)
class PeriodicRunAdmin(ReadOnlyAdmin):
    list_display = ["name", "state", "started", "finished", "took"]
    ordering = ["name"]
    # There are few rows: these orders need no indexes.
    sort_orders = {"name": "name", "started": "started_at", "finished": "finished_at", "took": "seconds"}
    fields = ["name", "started", "finished", "took", "failed"]
    readonly_fields = fields

    @display(description="state", label={"ok": "success", "failed": "danger"})
    def state(self, run: PeriodicRun) -> str:
        return "failed" if run.failed else "ok"

    @display(description="last start", ordering="started_at")
    def started(self, run: PeriodicRun) -> str:
        return ago_titled(run.started_at)

    @display(description="last success", ordering="finished_at")
    def finished(self, run: PeriodicRun) -> str:
        return ago_titled(run.finished_at)

    @display(description="took", ordering="seconds")
    def took(self, run: PeriodicRun) -> str:
        return "-" if run.seconds is None else f"{run.seconds:.2f} s"


class Progress(Panel):
    """The progress of a job, which the page refreshes every two seconds until the job is over."""

    template = "admin/jobs/progress_panel.html"
    views = ["progress", "stop"]

    class Media:
        js = ["relayer_service/jobs.js"]

    def context(self, request: HttpRequest, job: Job) -> dict[str, Any]:
        may_stop = not job.is_over and not job.stopped_by and self.admin.has_stop_permission(request, job)
        return {
            **progress(request, job),
            "progress_url": "" if job.is_over else self.url("progress", job),
            "stop_url": self.url("stop", job) if may_stop else "",
        }

    @object_view("view", method="GET")
    def progress(self, request: HttpRequest, job: Job) -> HttpResponse:
        return render(request, "admin/jobs/progress.html", progress(request, job))

    @object_view("stop")
    def stop(self, request: HttpRequest, job: Job) -> None:
        running.stop(job, request.user.get_username())
        self.admin.message_user(request, "The job stops after the batch in progress.", messages.SUCCESS)


def progress(request: HttpRequest, job: Job) -> dict[str, Any]:
    chosen = kind(job.kind)
    facts = {
        "State": label(job.state, VARIANTS[job.state]),
        chosen.done: f"{job.done:,}",
        **({f"Skipped ({chosen.skip_reason})": f"{job.skipped:,}"} if job.skipped else {}),
        chosen.failed: alarm(job.failed),
        "Started by": f"{job.started_by}, {exact(job.created_at)}",
        **({"Reason": job.reason} if job.reason else {}),
    }
    if job.is_over:
        facts["Ended"] = exact(job.finished_at)
    if chosen.is_recorded and request.user.has_perm("relayer_service.view_auditentry"):
        log = f"{reverse('admin:relayer_service_auditentry_changelist')}?q=job-{job.pk}"
        facts["Changes"] = text_link("in the audit log", log)
    return {
        "job": job,
        "summary": summary(job),
        "percent": 100 * job.taken // job.total if job.total else 100,
        "facts": facts,
        "failures": job.failures,
        "failures_title": chosen.failed,
        "more_failures": and_more(job.failed - len(job.failures)),
    }


def summary(job: Job) -> str:
    done = f"{job.taken:,} of {job.total:,}"
    if job.state == Job.State.WAITING:
        return (
            "Waiting for a worker, which should start within seconds. If it does not, check that a worker is running."
        )
    if job.state == Job.State.RUNNING:
        return f"{done}; being stopped by {job.stopped_by}." if job.stopped_by else f"{done}."
    if job.state == Job.State.STOPPED:
        return f"Stopped by {job.stopped_by} after {done}. Completed changes are kept; the rest is unchanged."
    return f"Finished: {done}."
