"""The admin pages of periodic work, jobs and the audit log; those of users and groups are in `accounts`."""

from django.contrib import admin
from unfold.decorators import display

from relayer_service.admin import accounts  # noqa: F401  # registers its pages
from relayer_service.admin.audit_log import AuditEntryAdmin
from relayer_service.admin.base import ReadOnlyAdmin
from relayer_service.admin.dates import ago_titled
from relayer_service.admin.jobs import JobAdmin
from relayer_service.models import AuditEntry, Job, PeriodicRun

admin.site.register(AuditEntry, AuditEntryAdmin)
admin.site.register(Job, JobAdmin)


@admin.register(PeriodicRun)
class PeriodicRunAdmin(ReadOnlyAdmin):
    list_display = ["name", "state", "started", "finished", "took"]
    ordering = ["name"]
    # They are few.
    sort_orders = {"name": "name", "started": "started_at", "finished": "finished_at", "took": "seconds"}

    @display(description="state", label={"ok": "success", "failed": "danger"})
    def state(self, run: PeriodicRun) -> str:
        return "failed" if run.failed else "ok"

    @display(description="last start", ordering="started_at")
    def started(self, run: PeriodicRun) -> str:
        return ago_titled(run.started_at)

    @display(description="last good end", ordering="finished_at")
    def finished(self, run: PeriodicRun) -> str:
        return ago_titled(run.finished_at)

    @display(description="took", ordering="seconds")
    def took(self, run: PeriodicRun) -> str:
        return "-" if run.seconds is None else f"{run.seconds:.2f} s"
