"""Base classes of the admin's pages: resources, which staff change, and logs, which are read-only."""

from collections.abc import Callable, Sequence
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ORDER_VAR
from django.contrib.admin.widgets import AutocompleteSelect
from django.db import connection, transaction
from django.db.models import Model, ProtectedError, QuerySet
from django.forms import Media
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.functional import cached_property
from unfold.admin import ModelAdmin
from unfold.decorators import display

from relayer_service.console.audit import AuditedAdmin
from relayer_service.console.dates import to_the_minute
from relayer_service.console.errors import shown_permission
from relayer_service.console.lists import search
from relayer_service.console.lists.changelists import (
    NewestPaginator,
    ResourceList,
    filtered_tab_counts,
    is_key,
    tab_counts,
    tabs,
)
from relayer_service.console.lists.filters import StateFilter
from relayer_service.console.lists.preferences import PreferencesAdmin
from relayer_service.console.overview.getting_started import STEP
from relayer_service.console.panels import Panel, declared_panels
from relayer_service.console.references import may_view_users, used_by
from relayer_service.database import substrings

DELETE = "delete_selected"
USED_CONCURRENTLY = "Not deleted: another object has started to use it."


def column(description: str, show: Callable[[Any], str], **options: Any) -> Any:
    """Return an attribute of an admin: a column of its list, or a field of its page, that shows a text of each row."""
    return staticmethod(display(description=description, **options)(lambda row: show(row)))


class KeySelect(AutocompleteSelect):
    """A select of an object, which shows nothing for a submitted value that is not a key; Django's fails."""

    def optgroups(self, name: str, value: Any, attr: Any = None) -> Any:
        keys = [key for key in value if key.isdecimal() and is_key(key)]
        return super().optgroups(name, keys, attr)


class ResourceAdmin(AuditedAdmin, PreferencesAdmin, ModelAdmin):
    """A list of any size, and a page per object with the panels that apps declare for it."""

    list_filter_submit = True
    list_per_page = 50
    paginator = NewestPaginator
    ordering = ["-sequence"]
    # The indexed order of each sortable column. A column that is a method also needs an `ordering`.
    sort_orders: dict[str, Any] = {}
    # What a search finds by any part of it; empty if it finds the start only.
    searched = ""
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    change_form_outer_before_template = "admin/panels.html"
    # Lookups of the list's filters. Any other could reveal the contents of a hidden column.
    allowed_lookups: set[str] = set()
    # Allowed lookups whose values are primary keys.
    allowed_keys: set[str] = set()
    # The tabs of an object's page, if it has any: their titles by the name that panels and fieldsets have as theirs.
    # The first one is that of the theme, `general`.
    page_tabs: dict[str, str] = {}
    # What its objects are for and how to begin, while there are none.
    purpose = ""
    # Whether adding an object opens its page, which shows what to do next.
    opens_added = False
    # Whether its page links to its history in the audit log.
    has_history = True
    # Whether the command palette searches this list.
    in_palette = True
    palette_columns: Sequence[str] = search.DESCRIBED_BY

    @cached_property
    def panels(self) -> list[Panel]:
        return declared_panels(self)

    @property
    def media(self) -> Media:
        return sum((panel.media for panel in self.panels), super().media)

    def get_urls(self) -> list[Any]:
        return [*(url for panel in self.panels for url in panel.urls()), *super().get_urls()]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ResourceList]:
        return ResourceList

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        response = super().changelist_view(request, extra_context)
        changelist = getattr(response, "context_data", None) and response.context_data.get("cl")
        if changelist:
            response.context_data["tab_list"] = self._tabs(request, changelist)
        return response

    def _tabs(self, request: HttpRequest, changelist: ResourceList) -> list[dict[str, Any]]:
        """Return the tabs by state, with the number of rows that the search and the other filters find.

        With a state chosen, the list is as fast as its index; rows of the other states may take much longer to find.
        """
        return [
            {"models": [str(self.opts)], "items": tabs(request, each, self._counts(request, each, changelist))}
            for each in self.get_list_filter(request)
            if isinstance(each, type) and issubclass(each, StateFilter)
        ]

    def _counts(
        self, request: HttpRequest, state_filter: type[StateFilter], changelist: ResourceList
    ) -> dict[str | None, str]:
        if not state_filter.is_counted:
            return {}
        # Links to the list may have lookups that no filter shows.
        lookups = self.allowed_lookups - {state_filter.parameter_name}
        if changelist.query or changelist.has_active_filters or any(map(request.GET.get, lookups)):
            return {} if changelist.tab else filtered_tab_counts(changelist.of_all_states, state_filter)
        return tab_counts(self.get_queryset(request), state_filter)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Return the actions of the list: deletion, which Django has first, is the last."""
        actions: dict[str, Any] = super().get_actions(request)
        if DELETE in actions:
            actions[DELETE] = actions.pop(DELETE)
        return actions

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        if searched := self.get_searched(request):
            changelist.search_help_text = f"Any part of {searched}"
        return changelist

    def get_searched(self, request: HttpRequest) -> str:
        return self.searched

    def get_sortable_by(self, request: HttpRequest) -> list[str]:
        return list(self.sort_orders)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        text = search_term.strip()
        if not text:
            return queryset, False
        sort = ORDER_VAR not in request.GET
        if len(text) >= substrings.MIN_LENGTH and self.searches_parts(request, text):
            return search.find_part(queryset, self.get_search_fields(request), text, sort=sort), False
        # A list that only finds starts grows with traffic.
        newest = not self.get_searched(request)
        return search.find(queryset, self.searched_starts(request, text), sort=sort, newest_first=newest), False

    def searches_parts(self, request: HttpRequest, text: str) -> bool:
        """Return whether a search finds any part of the searched columns, and not only their start."""
        return bool(self.get_searched(request))

    def searched_starts(self, request: HttpRequest, text: str) -> list[tuple[str, str]]:
        """Return each searched column with the text that it must start with."""
        return [(name, each) for name in self.get_search_fields(request) for each in self.searched_texts(name, text)]

    def searched_texts(self, column: str, text: str) -> list[str]:
        return [text]

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        return lookup in self.allowed_lookups or (lookup in self.allowed_keys and is_key(value))

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may add an object and view the objects that it requires."""
        return super().has_add_permission(request) and not self.missing_to_add(request)

    def missing_to_add(self, request: HttpRequest) -> list[str]:
        return [name for field, name in self._missing_to_choose(request).items() if not field.blank]

    def _missing_to_choose(self, request: HttpRequest) -> dict[Any, str]:
        fields = [self.opts.get_field(name) for name in self.get_autocomplete_fields(request)]
        return {
            field: shown_permission("view", field.related_model._meta)
            for field in fields
            if not self.admin_site._registry[field.related_model].has_view_permission(request)
        }

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name in self.get_autocomplete_fields(request):
            kwargs.setdefault("widget", KeySelect(db_field, self.admin_site))
        field = super().formfield_for_foreignkey(db_field, request, **kwargs)
        missing = self._missing_to_choose(request).get(db_field)
        if field and missing:
            field.disabled = True
            field.help_text = f"Requires the permission {missing}. {field.help_text}".strip()
        return field

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return an object, locked while it is changed so that concurrent changes to other fields are kept."""
        obj = super().get_object(request, object_id, from_field)
        if obj and request.method == "POST" and connection.in_atomic_block:
            # Joined rows are not locked: PostgreSQL refuses that where they may be missing.
            obj = self.get_queryset(request).select_for_update(of=("self",)).filter(pk=obj.pk).first()
        return obj

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Save the form's write with its audit entry, show its warnings and run the theme's submit actions."""
        form.write.save()
        for path, text in form.write.warnings:
            # A field may have other words than the API.
            show = getattr(form.fields.get(path), "shown_warning", str)
            self.message_user(request, f"{obj}: {show(text)}", messages.WARNING)
        for each in self.get_actions_submit_line(request, obj.pk):
            if each.action_name in request.POST:
                each.method(request, obj)

    def response_post_save_add(self, request: HttpRequest, obj: Any) -> HttpResponse:
        if STEP in request.GET:
            return HttpResponseRedirect(reverse("admin:index"))
        response: HttpResponse = super().response_post_save_add(request, obj)
        return (self.page_of(request, obj) if self.opens_added else None) or response

    def page_of(self, request: HttpRequest, obj: Any) -> HttpResponse | None:
        """Return a redirect to the page of an object; None for staff who cannot view it."""
        page = reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=[obj.pk])
        return HttpResponseRedirect(page) if self.has_view_or_change_permission(request, obj) else None

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> Any:
        obj = kwargs.get("obj")
        if obj and request.method == "POST":
            # The form has set what was refused.
            obj = self.get_queryset(request).filter(pk=obj.pk).first()
        context |= self.panel_context(request, obj) if obj else {"panels": []}
        context["show_history"] = self.has_history
        if obj and self.page_tabs:
            titles, fieldsets = self.page_tabs.items(), self.get_fieldsets(request, obj)
            items = [{"title": title, "inline": name, "has_permission": True} for name, title in titles]
            context["tab_list"] = [{"models": [{"name": str(self.opts), "detail": True}], "items": items}]
            context["form_tabs"] = [name for _, options in fieldsets for name in options["classes"]]
        return super().render_change_form(request, context, *args, **kwargs)

    def panel_context(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        """Return the panels of an object, all and by tab, with their contexts."""
        shown = [panel for panel in self.panels if panel.may_view(request) and panel.is_shown(obj)]
        tabs = [(name, [panel.template for panel in shown if panel.tab == name]) for name in self.page_tabs]
        context: dict[str, Any] = {"panels": [panel.template for panel in shown], "panel_tabs": tabs}
        for panel in shown:
            context |= panel.context(request, obj)
        return context

    def show_once(self, request: HttpRequest, title: str, template: str, context: dict[str, Any]) -> HttpResponse:
        """Return a page with a new secret, which only this response has: a message would be stored."""
        context = {**self.admin_site.each_context(request), "title": title, "opts": self.opts, **context}
        return TemplateResponse(request, template, context, headers={"Cache-Control": "no-store"})

    @display(description="created", ordering="sequence")
    def created(self, obj: Any) -> str:
        return to_the_minute(obj.created_at)


class ReferencedAdmin(ResourceAdmin):
    """A resource that other rows refer to: they block its deletion, even those that are created meanwhile.

    Its page shows them, linked for staff who may view all of them and counted for others.
    """

    # Models whose rows are deleted with the resource.
    dependents: list[type[Model]] = []

    def users_field(self, request: HttpRequest) -> str:
        return "used_by" if may_view_users(request, self.model, self.dependents) else "use_counts"

    @display(description="used by")
    def used_by(self, obj: Model) -> str:
        return used_by(obj, linked=True, without=self.dependents)

    @display(description="used by")
    def use_counts(self, obj: Model) -> str:
        return used_by(obj, linked=False, without=self.dependents)

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> Any:
        try:
            return super().delete_view(request, object_id, extra_context)
        except ProtectedError:
            self.message_user(request, USED_CONCURRENTLY, messages.ERROR)
            return HttpResponseRedirect(reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        try:
            with transaction.atomic():
                super().delete_queryset(request, queryset)
        except ProtectedError:
            self.message_user(request, USED_CONCURRENTLY, messages.ERROR)


class EarlyFormAdmin(ResourceAdmin):
    """A page whose form calls servers, first before the transaction: waiting for them inside it would block others."""

    def early_fields(self, request: HttpRequest, obj: Any) -> list[str]:
        """Return the fields of the form that is validated early."""
        raise NotImplementedError

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> Any:
        if request.method == "POST":
            obj = self.get_object(request, unquote(object_id)) if object_id else None
            allowed = self.has_change_permission(request, obj) if object_id else self.has_add_permission(request)
            if allowed and (obj or not object_id):
                form_class = self.get_form(request, obj, change=bool(obj), fields=self.early_fields(request, obj))
                form = form_class(request.POST, request.FILES, instance=obj)
                form.is_valid()
                request.__dict__["early_form"] = form
        return super().changeform_view(request, object_id, form_url, extra_context)


class ReadOnly:
    """A mixin for an admin or an inline without add, change and delete."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    has_change_permission = has_delete_permission = has_add_permission


class ReadOnlyAdmin(ReadOnly, ResourceAdmin):
    """A log that only the service writes."""
