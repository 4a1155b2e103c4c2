"""The base class of audited admin pages: it records deletions, and shows the audit log as the history of an object."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import PAGE_VAR
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import CASCADE, Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from relayer_service.audit.models import AuditEntry
from relayer_service.audit.recording import BATCH_SIZE, deleted, record
from relayer_service.console.errors import ObjectNotFound
from relayer_service.console.lists.changelists import NewestPaginator
from relayer_service.console.panels import declared

# Untyped, like the theme's classes that it is mixed with.
DjangoModelAdmin: Any = admin.ModelAdmin

ENTRIES_PER_PAGE = 50


class AuditedAdmin(DjangoModelAdmin):
    """Uses the audit log in place of Django's own, `LogEntry`, which stays empty."""

    # Relations that audit entries read, for `select_related` in bulk deletions.
    audited_relations: list[str] = []

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        with transaction.atomic():
            self._record_deleted(request, [obj])
            super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        with transaction.atomic():
            if self.audited_relations:
                queryset = queryset.select_related(*self.audited_relations)
            rows = list(queryset.select_for_update(of=("self",)))
            for start in range(0, len(rows), BATCH_SIZE):
                batch = rows[start : start + BATCH_SIZE]
                self._record_deleted(request, batch)
                # Only recorded rows, not others that match the queryset by now.
                chosen = self.model._default_manager.filter(pk__in=[row.pk for row in batch])
                super().delete_queryset(request, chosen)

    def delete_dependents(self, request: HttpRequest, row: Any) -> str:
        """Delete the dependents of a row before the row itself, and return the reason for the audit log."""
        return ""

    def _record_deleted(self, request: HttpRequest, rows: list[Any]) -> None:
        dependents = list(cascaded(rows))
        entries = [deleted(row, self.delete_dependents(request, row)) for row in rows]
        record([*entries, *(deleted(row) for row in dependents)])

    def log_addition(self, *args: Any, **kwargs: Any) -> Any: ...

    log_change = log_deletions = log_addition

    def get_object_or_404(self, request: HttpRequest, object_id: str) -> Any:
        obj = self.get_object(request, unquote(object_id))
        if obj is None:
            raise ObjectNotFound(self.opts)
        return obj

    def _get_obj_does_not_exist_redirect(self, request: HttpRequest, opts: Any, object_id: str) -> HttpResponse:
        """Raise a 404 in place of Django's redirect to the overview."""
        raise ObjectNotFound(opts)

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Return the object's entries, newest first, for users who may view the object."""
        obj = self.get_object_or_404(request, object_id)
        if not self.has_view_or_change_permission(request, obj):
            raise PermissionDenied
        paginator = NewestPaginator(AuditEntry.objects.for_row(obj), ENTRIES_PER_PAGE)
        page = paginator.get_page(request.GET.get(PAGE_VAR, 1))
        show_units(page)
        context = {
            **self.admin_site.each_context(request),
            "title": f"History of {obj}",
            "subtitle": None,
            "entries": page,
            "page_range": paginator.get_elided_page_range(page.number),
            "page_var": PAGE_VAR,
            "module_name": str(self.opts.verbose_name_plural),
            "object": obj,
            "opts": self.opts,
            "preserved_filters": self.get_preserved_filters(request),
            **(extra_context or {}),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/audit/history.html", context)


def show_units(entries: Collection[AuditEntry]) -> None:
    """Replace amounts in entries by those with units. Apps name a function for theirs as `audit_units`."""
    for function in declared("audit_units"):
        function(entries)


def cascaded(rows: Sequence[Model]) -> Iterator[Model]:
    for relation in rows[0]._meta.related_objects if rows else []:
        model: Any = relation.related_model
        if relation.on_delete is CASCADE and hasattr(model, "audited"):
            related = model._base_manager.filter(**{f"{relation.field.name}__in": rows})
            yield from related.select_related(relation.field.name)
