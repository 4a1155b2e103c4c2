from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.html import format_html

from relayer_client.outbox.models import OutboxQuerySet, OutboxTransaction, RelayerGeneration, Status
from relayer_client.outbox.restores import Restores

RESTORED = "The service's database was restored since it was handed over. Check whether it was sent."


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's has no parameters
    """A log to read. Who may change its rows has actions."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_resolve_permission(self, request: HttpRequest) -> bool:
        return super().has_change_permission(request)


@admin.register(OutboxTransaction)
class OutboxTransactionAdmin(ReadOnlyAdmin):
    list_display = ["key", "status", "status_reason", "relayer", "to", "value", "transfer", "service", "created_at"]
    list_filter = ["status", "relayer", "created_at"]
    search_fields = ["key", "relayer", "to", "transaction_id", "hash"]
    readonly_fields = ["transfer", "service"]
    ordering = ["-pk"]
    show_full_result_count = False
    actions = ["try_again", "cancel", "mark_as_confirmed", "mark_as_failed"]

    @admin.display(description="at the service")
    def service(self, row: OutboxTransaction) -> str:
        url = getattr(settings, "RELAYER_CLIENT", {}).get("URL")
        if not (url and row.transaction_id):
            return row.transaction_id or "-"
        link = f"{url.rstrip('/')}/admin/transactions/transaction/?q={row.transaction_id}"
        return format_html('<a href="{}">{}</a>', link, row.transaction_id)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        if request.method == "GET" and (hold := Restores(RelayerGeneration.objects.db).hold):
            messages.error(request, hold)
        return super().changelist_view(request, extra_context)

    @admin.action(permissions=["resolve"], description="Try again: it was not sent")
    def try_again(self, request: HttpRequest, chosen: OutboxQuerySet) -> None:
        """Queue rows that the service has rejected, and uncertain ones that staff have found not to be sent."""
        rows = chosen.filter(status__in=[Status.FAILED, Status.UNCERTAIN], transaction_id="")
        self._change(request, chosen, rows, Status.QUEUED, unanswered_since=None)

    @admin.action(permissions=["resolve"], description="Queued: cancel, if it was never handed over")
    def cancel(self, request: HttpRequest, chosen: OutboxQuerySet) -> None:
        self._change(request, chosen, chosen.cancelable(), Status.CANCELED)

    @admin.action(permissions=["resolve"], description="Uncertain: mark as confirmed")
    def mark_as_confirmed(self, request: HttpRequest, chosen: OutboxQuerySet) -> HttpResponse | None:
        rows = chosen.filter(status=Status.UNCERTAIN)
        if "is_sure" in request.POST or not rows:
            self._change(request, chosen, rows, Status.CONFIRMED)
            return None
        context = {**self.admin_site.each_context(request), "title": "Were these paid?", "rows": rows}
        return TemplateResponse(request, "admin/relayer_outbox/confirm.html", context)

    @admin.action(permissions=["resolve"], description="Uncertain: mark as failed")
    def mark_as_failed(self, request: HttpRequest, chosen: OutboxQuerySet) -> None:
        self._change(request, chosen, chosen.filter(status=Status.UNCERTAIN), Status.FAILED)

    def _change(
        self, request: HttpRequest, chosen: OutboxQuerySet, rows: OutboxQuerySet, status: Status, **values: Any
    ) -> None:
        """Set the status of the rows for which that is possible, each unless a sender has just changed it."""
        changed = 0
        for row in rows:
            if rows.filter(pk=row.pk).change(status, f"Set by {request.user}.", **values):
                self.log_change(request, row, f"Changed from {row.status} to {status}.")
                changed += 1
        skipped = chosen.count() - changed
        level = messages.WARNING if skipped else messages.SUCCESS
        self.message_user(request, f"{changed} changed, {skipped} skipped.", level)


@admin.register(RelayerGeneration)
class RelayerGenerationAdmin(ReadOnlyAdmin):
    list_display = ["relayer", "generation", "evidence", "acknowledged_at"]
    actions = ["acknowledge"]

    @admin.action(permissions=["resolve"], description="Acknowledge the restored database, and go on")
    def acknowledge(self, request: HttpRequest, chosen: QuerySet[RelayerGeneration]) -> None:
        """Go on with the new generations, which are read again. Rows that may have been accepted become uncertain."""
        rows, now = list(chosen), timezone.now()
        # Of all relayers: the database is one. Evidence goes last, so that this can be repeated after a kill.
        RelayerGeneration.objects.update(generation=0, acknowledged_at=now)
        OutboxTransaction.objects.queued().exclude(unanswered_since=None).change(Status.UNCERTAIN, RESTORED)
        chosen.update(evidence="")
        OutboxTransaction.objects.queued().filter(claim=None).update(next_attempt_at=now)
        for row in rows:
            self.log_change(request, row, f"Acknowledged: {row.evidence}")
        if left := Restores(chosen.db).hold:
            self.message_user(request, left, messages.WARNING)
