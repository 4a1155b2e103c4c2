"""Jobs in the admin: started after a confirmation, with a page that shows how far each has come and stops it."""

from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.html import format_html
from unfold.decorators import display

from relayer_service.admin import confirmation
from relayer_service.admin.base import ReadOnlyAdmin
from relayer_service.admin.confirmation import PendingAction, Table
from relayer_service.admin.dashboard import label
from relayer_service.admin.dates import exact
from relayer_service.admin.pagination import NewestPaginator
from relayer_service.admin.panels import Panel, object_view
from relayer_service.jobs import running
from relayer_service.jobs.kinds import kind, kinds
from relayer_service.jobs.models import Job

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
    left_alone: int = 0,
) -> HttpResponse:
    """Ask whether a job of a kind is to be started; start one that was confirmed, with a message that leads to it.

    The texts say of so many rows that they are left alone.
    """
    chosen = kind(name)
    if not pending.is_confirmed:
        explanation = chosen.explanation.format(chosen.counted(len(pending.selection) - left_alone))
        return confirmation.ask(request, model_admin, pending, chosen.title, [explanation, *texts], table)
    job = running.start(name, pending.selection, request.user.get_username())
    page = reverse("admin:relayer_service_job_change", args=[job.pk])
    link = format_html('<a class="underline" href="{}">See how far it is</a>', page)
    model_admin.message_user(request, format_html("Started in the worker: {}. {}.", job, link), messages.SUCCESS)
    return pending.leave()


def visible_kinds(request: HttpRequest) -> list[str]:
    """Return the kinds whose jobs somebody may see: all, or those with rows that they may view."""
    may_see_all = request.user.has_perm("relayer_service.view_job")
    return [name for name, each in kinds().items() if may_see_all or request.user.has_perm(each.view_permission)]


def may_see_jobs(request: HttpRequest) -> bool:
    return bool(visible_kinds(request))


class JobAdmin(ReadOnlyAdmin):
    list_display = ["title", "shown_state", "progress", "actor", "created", "finished"]
    list_per_page = 50
    paginator = NewestPaginator
    ordering = ["-id"]
    sortable_by: list[str] = []

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        jobs: QuerySet[Job] = super().get_queryset(request)
        return jobs.filter(kind__in=visible_kinds(request)).defer("selection")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # Its page is found among those that the user may see.
        return may_see_jobs(request)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return may_see_jobs(request)

    def has_stop_permission(self, request: HttpRequest, job: Job) -> bool:
        return request.user.has_perm(kind(job.kind).permission)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        # The panel has it all.
        return []

    def change_view(self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None) -> Any:
        # What it has changed is in the audit log of the rows.
        return super().change_view(request, object_id, form_url, {"show_history": False, **(extra_context or {})})

    @display(description="state")
    def shown_state(self, job: Job) -> str:
        return label(job.state, VARIANTS[job.state])

    @display(description="progress")
    def progress(self, job: Job) -> str:
        return f"{job.taken:,} of {job.total:,}"

    @display(description="created")
    def created(self, job: Job) -> str:
        return exact(job.created_at)

    @display(description="finished")
    def finished(self, job: Job) -> str:
        return exact(job.finished_at)


class Progress(Panel):
    """How far a job has come, anew every two seconds until it is over."""

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
        self.admin.message_user(request, "It stops after what is in progress now.", messages.SUCCESS)


def progress(request: HttpRequest, job: Job) -> dict[str, Any]:
    chosen = kind(job.kind)
    facts = {
        "State": label(job.state, VARIANTS[job.state]),
        chosen.done: f"{job.done:,}",
        **({f"Left alone, as {chosen.left_alone}": f"{job.left_alone:,}"} if job.left_alone else {}),
        "Failed": label(f"{job.failed:,}", "danger") if job.failed else "0",
        "Started by": f"{job.actor}, {exact(job.created_at)}",
    }
    if job.is_over:
        facts["Ended"] = exact(job.finished_at)
    if chosen.is_recorded and request.user.has_perm("relayer_service.view_auditentry"):
        log = f"{reverse('admin:relayer_service_auditentry_changelist')}?q=job-{job.pk}"
        facts["Changes"] = format_html('<a class="underline" href="{}">in the audit log</a>', log)
    return {
        "job": job,
        "summary": summary(job),
        "percent": 100 * job.taken // job.total if job.total else 100,
        "facts": facts,
        "failures": job.failures,
        "more_failures": f"{job.failed - len(job.failures):,}" if job.failed > len(job.failures) else "",
    }


def summary(job: Job) -> str:
    """Return in a sentence how far the job has come, or how it ended."""
    far = f"{job.taken:,} of {job.total:,}"
    if job.state == Job.State.WAITING:
        return "It waits for the worker, which begins within seconds. If it does not, see whether a worker runs."
    if job.state == Job.State.RUNNING:
        return f"{far}; being stopped by {job.stopped_by}." if job.stopped_by else f"{far}."
    if job.state == Job.State.STOPPED:
        return f"Stopped by {job.stopped_by} after {far}. What was done stays done; the others were not touched."
    return f"Finished: {far}."
