"""What each user keeps for a list of the admin: filters under a name, and the columns to show."""

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.contrib.admin.utils import label_for_field
from django.contrib.admin.views.main import ORDER_VAR, SEARCH_VAR
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import path, reverse
from django.utils.text import capfirst
from django.views.decorators.http import require_POST
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminTextInputWidget

from relayer_service.console.audit import DjangoModelAdmin
from relayer_service.models import ListPreference

# Of one user for one list.
MAX_FILTERS = 20


class FilterForm(forms.Form):
    name = forms.CharField(max_length=50, widget=UnfoldAdminTextInputWidget)
    query = forms.CharField(max_length=2_000)


class PreferencesAdmin(DjangoModelAdmin):
    """A list with saved filters, and columns to choose."""

    # Columns that the list also offers. They are hidden by default.
    extra_columns: list[str] = []

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(require_POST(self.preferences_view))
        return [path("preferences/", view, name=self._url_name("preferences")), *super().get_urls()]

    def _url_name(self, view: str) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_{view}"

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        if changelist.is_popup:
            return changelist
        key = {"user_id": request.user.pk, "list_name": self.opts.label_lower}
        stored = ListPreference.objects.filter(**key).first() or ListPreference()
        current = self._normalized(request, request.GET)
        saved = {name: self._normalized(request, QueryDict(query)) for name, query in stored.filters.items()}
        changelist.saved_filters = [
            (name, saved[name], saved[name] == current) for name in sorted(saved, key=str.casefold)
        ]
        changelist.filter_form = FilterForm(auto_id=False) if current else None
        columns = {name: stored.columns.get(name, shown) for name, shown in self._optional_columns(request).items()}
        labels = [(name, capfirst(str(label_for_field(name, self.model, self)))) for name in columns]
        widget = UnfoldAdminCheckboxSelectMultipleWidget(choices=labels)
        changelist.column_choices = widget.render("columns", [name for name in columns if columns[name]])
        changelist.list_display = [
            *(name for name in changelist.list_display if columns.get(name, True)),
            *(name for name in self.extra_columns if columns[name]),
        ]
        changelist.has_chosen_columns = bool(stored.columns)
        changelist.preferences_url = reverse(f"admin:{self._url_name('preferences')}", query=request.GET)
        return changelist

    def preferences_view(self, request: HttpRequest) -> HttpResponse:
        """Save what was posted, and return to the list with the query of this URL."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        key = {"user_id": request.user.pk, "list_name": self.opts.label_lower}
        with transaction.atomic():
            stored, _ = ListPreference.objects.select_for_update().get_or_create(**key)
            self._change(request, stored)
            stored.save()
        return HttpResponseRedirect(reverse(f"admin:{self._url_name('changelist')}", query=request.GET))

    def _change(self, request: HttpRequest, stored: ListPreference) -> None:
        if "delete" in request.POST:
            stored.filters.pop(request.POST["delete"], None)
        elif "reset" in request.POST:
            stored.columns = {}
        elif "show" in request.POST:
            chosen = request.POST.getlist("columns")
            stored.columns = {name: name in chosen for name in self._optional_columns(request)}
        else:
            query = self._normalized(request, request.GET)
            form = FilterForm({"name": request.POST.get("name"), "query": query})
            if form.is_valid() and len({*stored.filters, form.cleaned_data["name"]}) > MAX_FILTERS:
                form.add_error(None, f"There are {MAX_FILTERS} saved filters, the maximum. Delete one first.")
            if form.is_valid():
                stored.filters[form.cleaned_data["name"]] = form.cleaned_data["query"]
            for text in (text for texts in form.errors.values() for text in texts):
                self.message_user(request, f"The filter is not saved. {text}", messages.ERROR)

    def _normalized(self, request: HttpRequest, query: QueryDict) -> str:
        """Return the search, filters and order of a query, without what the list does not accept."""
        pairs = sorted((name, value) for name, values in query.lists() for value in values if value)
        kept = {ORDER_VAR, SEARCH_VAR}
        return urlencode([each for each in pairs if each[0] in kept or self.lookup_allowed(*each, request)])

    def _optional_columns(self, request: HttpRequest) -> dict[str, bool]:
        """Return whether each column is shown by default, without the first, which links to the object."""
        return dict.fromkeys(self.get_list_display(request)[1:], True) | dict.fromkeys(self.extra_columns, False)
