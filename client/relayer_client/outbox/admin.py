from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from relayer_client.outbox.models import OutboxTransaction, Status


@admin.register(OutboxTransaction)
class OutboxTransactionAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's has no parameters
    """A log to read. Who may change transactions can resolve those that are not sent."""

    list_display = ["key", "status", "relayer", "to", "value", "hash", "attempts", "created_at", "updated_at"]
    list_filter = ["status", "created_at"]
    search_fields = ["key", "relayer", "to", "transaction_id", "hash"]
    ordering = ["-pk"]
    show_full_result_count = False
    actions = ["try_again", "mark_as_confirmed", "mark_as_failed"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: OutboxTransaction | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: OutboxTransaction | None = None) -> bool:
        return False

    def has_resolve_permission(self, request: HttpRequest) -> bool:
        return super().has_change_permission(request)

    @admin.action(permissions=["resolve"], description="Try again: it was not sent")
    def try_again(self, request: HttpRequest, chosen: QuerySet[OutboxTransaction]) -> None:
        """Queue rows that the service has rejected, and uncertain ones that staff have found not to be sent."""
        rows = chosen.filter(status__in=[Status.FAILED, Status.UNCERTAIN], transaction_id="", claim=None)
        self._change(request, chosen, rows, Status.QUEUED, unanswered_since=None, notified_at=None)

    @admin.action(permissions=["resolve"], description="Uncertain: mark as confirmed")
    def mark_as_confirmed(self, request: HttpRequest, chosen: QuerySet[OutboxTransaction]) -> None:
        self._change(request, chosen, chosen.filter(status=Status.UNCERTAIN), Status.CONFIRMED)

    @admin.action(permissions=["resolve"], description="Uncertain: mark as failed")
    def mark_as_failed(self, request: HttpRequest, chosen: QuerySet[OutboxTransaction]) -> None:
        self._change(request, chosen, chosen.filter(status=Status.UNCERTAIN), Status.FAILED)

    def _change(
        self,
        request: HttpRequest,
        chosen: QuerySet[OutboxTransaction],
        rows: QuerySet[OutboxTransaction],
        status: Status,
        **values: Any,
    ) -> None:
        """Set the status of the rows for which that is possible, each unless a sender has just changed it."""
        now, changed = timezone.now(), 0
        values |= {"status": status, "status_reason": f"Set by {request.user}.", "attempts": 0}
        for row in rows:
            if rows.filter(pk=row.pk).update(next_attempt_at=now, updated_at=now, **values):
                self.log_change(request, row, f"Changed from {row.status} to {status}.")
                changed += 1
        skipped = chosen.count() - changed
        level = messages.WARNING if skipped else messages.SUCCESS
        self.message_user(request, f"{changed} changed, {skipped} skipped.", level)
