"""The audit log in the admin: read-only, also for superusers."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from functools import reduce
from operator import or_
from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from unfold.contrib.filters.admin import ChoicesDropdownFilter, DropdownFilter
from unfold.decorators import display

from relayer_service.audit.models import AuditEntry, type_of
from relayer_service.console.audit import AuditedAdmin, show_units
from relayer_service.console.base import ReadOnlyAdmin
from relayer_service.console.dates import exact
from relayer_service.console.lists.filters import DayRangeFilter
from relayer_service.csv_export import EXPORT_BATCH, MAX_EXPORTED, csv_lines, download

# Searched columns, each with an index.
SEARCHED = ("object_id", "actor", "request_id")
CSV_COLUMNS = [
    *("at", "actor_kind", "actor", "actor_key", "address", "request_id"),
    *("object_type", "object_id", "action", "changes", "reason"),
]


class ObjectTypeFilter(DropdownFilter):
    """Offers the types that have admin pages: listing those in the table would read all of it."""

    title = "type"
    parameter_name = "object_type"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        admins = audited_admins(model_admin.admin_site)
        return sorted((name, str(each.opts.verbose_name).capitalize()) for name, each in admins.items())

    def queryset(self, request: HttpRequest, queryset: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
        return queryset.filter(object_type=self.value()) if self.value() else queryset


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    list_display = ["when", "who", "object", "shown_action", "what", "source"]
    list_display_links = ["when"]
    list_filter = [ObjectTypeFilter, ("actor_kind", ChoicesDropdownFilter), ("at", DayRangeFilter)]
    list_fullwidth = True
    list_before_template = "admin/audit/export.html"
    ordering = ["-at", "-id"]
    in_palette = False
    # Audit entries never change.
    has_history = False
    # The theme shows the search field because of it; `get_search_results` searches.
    search_fields = SEARCHED
    search_help_text = "The full ID of an object, name of an actor or ID of a request"
    allowed_lookups = {"object_type", "actor_kind__exact", "at_from", "at_to"}
    fields = ["when", "who", "source", "request_id", "object", "shown_action", "what", "reason"]
    readonly_fields = ["when", "who", "source", "object", "shown_action", "what"]

    def get_urls(self) -> list[URLPattern]:
        export = self.admin_site.admin_view(self.export_view)
        return [path("export/", export, name="relayer_service_auditentry_export"), *super().get_urls()]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[AuditEntry], search_term: str
    ) -> tuple[QuerySet[AuditEntry], bool]:
        """Return the entries that match the whole term. An OR over all columns would read the whole log."""
        term = search_term.strip()
        if not term:
            return queryset, False
        columns = [Q(**{name: term}) for name in SEARCHED]
        matching = [column for column in columns if queryset.filter(column).exists()]
        return queryset.filter(reduce(or_, matching)) if matching else queryset.none(), False

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        self.link_objects(request, changelist.result_list)
        return changelist

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        entry = super().get_object(request, object_id, from_field)
        self.link_objects(request, [entry] if entry else [])
        return entry

    def link_objects(self, request: HttpRequest, entries: Collection[Any]) -> None:
        """Set the `url` of each entry to the page of its object, if that exists and the user may view it."""
        show_units(entries)
        by_type: dict[str, list[Any]] = defaultdict(list)
        admins = audited_admins(self.admin_site)
        for entry in entries:
            entry.url = ""
            by_type[entry.object_type].append(entry)
        for name, group in by_type.items():
            found = admins.get(name)
            if found is None or not found.has_view_permission(request):
                continue
            keys = {entry.object_pk for entry in group}
            there = set(map(str, found.model._base_manager.filter(pk__in=keys).values_list("pk", flat=True)))
            page = f"admin:{found.opts.app_label}_{found.opts.model_name}_change"
            for entry in group:
                entry.url = reverse(page, args=[entry.object_pk]) if entry.object_pk in there else ""

    @display(description="when")
    def when(self, entry: AuditEntry) -> str:
        return exact(entry.at)

    @display(description="from")
    def source(self, entry: AuditEntry) -> str:
        return entry.address or "-"

    @display(description="object")
    def object(self, entry: Any) -> str:
        name = f"{entry.kind} {entry.object_id}"
        if not entry.url:
            return format_html('<span class="audit">{}</span>', name)
        return format_html('<a class="audit underline" href="{}">{}</a>', entry.url, name)

    @display(description="action")
    def shown_action(self, entry: AuditEntry) -> str:
        return entry.title

    @display(description="what")
    def what(self, entry: AuditEntry) -> str:
        lines = [*entry.lines, *([entry.note] if entry.note else [])]
        return format_html_join("", '<div class="audit">{}</div>', ((line,) for line in lines)) or "-"

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            entries = super().get_changelist_instance(request).queryset
        except IncorrectLookupParameters:
            return HttpResponseRedirect(reverse("admin:relayer_service_auditentry_changelist"))
        return download(csv_lines(CSV_COLUMNS, map(cells, newest(entries))), "audit-log.csv")


def audited_admins(site: admin.AdminSite) -> dict[str, Any]:
    """Return the admins of audited models by type, except for this app's, which has only logs."""
    return {
        type_of(model): each
        for model, each in site._registry.items()
        if isinstance(each, AuditedAdmin) and each.opts.app_label != AuditEntry._meta.app_label
    }


def cells(entry: AuditEntry) -> list[Any]:
    values = {name: getattr(entry, name) for name in CSV_COLUMNS}
    values |= {"at": entry.at.isoformat(), "changes": "\n".join(entry.lines)}
    return [*values.values()]


def newest(entries: QuerySet[AuditEntry]) -> Iterator[AuditEntry]:
    """Yield entries in batches, each from where the last one ended, without a long-running query."""
    rest, exported = entries.order_by("-at", "-id"), 0
    while batch := list(rest[: min(EXPORT_BATCH, MAX_EXPORTED - exported)]):
        yield from batch
        exported, last = exported + len(batch), batch[-1]
        rest = entries.filter(at__lte=last.at).exclude(at=last.at, id__gte=last.pk).order_by("-at", "-id")
