"""Exports of the list of transactions: its rows as CSV, and a report of what was paid for gas."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import path, reverse
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from relayer_service.console.base import ResourceAdmin
from relayer_service.csv_export import MAX_EXPORTED, download
from transactions.console.exports import transaction_lines
from transactions.console.gas_report import GROUPS, finished_between, gas_lines, report

MAX_DAYS = 366
# A report reads its transactions before it sends the first line, which takes about a second per 100,000.
MAX_REPORTED = 200_000
TOO_MANY = (
    f"More than {MAX_REPORTED:,} transactions became final on these days. Choose fewer days, or run: "
    "manage.py export_gas {first} {last}"
)
LIST = "admin:transactions_transaction_changelist"


class DayWidget(UnfoldAdminTextInputWidget):
    input_type = "date"


class DaysForm(forms.Form):
    """The days of a report, few enough to be read at once, and what it is grouped by."""

    first = forms.DateField(label="From", widget=DayWidget())
    last = forms.DateField(label="To", widget=DayWidget(), help_text="Both days included, in UTC.")
    by = forms.ChoiceField(
        label="By",
        choices=[(name, title) for name, (title, _) in GROUPS.items()],
        required=False,
        widget=UnfoldAdminSelectWidget(),
    )

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        first, last = values.get("first"), values.get("last")
        if first and last:
            if last < first:
                raise ValidationError({"last": "This day is before the first one."})
            if last - first >= timedelta(days=MAX_DAYS):
                raise ValidationError({"last": f"Choose at most {MAX_DAYS} days."})
            # Counted in the index.
            if finished_between(first, last).order_by()[: MAX_REPORTED + 1].count() > MAX_REPORTED:
                raise ValidationError({"last": TOO_MANY.format(first=first, last=last)})
        return values


class ExportAdmin(ResourceAdmin):
    list_before_template = "admin/transactions/exports.html"

    def get_urls(self) -> list[Any]:
        views = {"export": self.export_view, "gas": self.gas_view}
        own = [
            path(f"{name}/", self.admin_site.admin_view(view), name=f"transactions_transaction_{name}")
            for name, view in views.items()
        ]
        return [*own, *super().get_urls()]

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            rows = self.get_changelist_instance(request).queryset
        except IncorrectLookupParameters:
            return HttpResponseRedirect(reverse(LIST))
        return download(transaction_lines(rows, MAX_EXPORTED), "transactions.csv")

    def gas_view(self, request: HttpRequest) -> HttpResponseBase:
        """Return the report of the chosen days, by default the last 30, as a page or as CSV."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        today = datetime.now(UTC).date()
        form = DaysForm(request.GET or {"first": today - timedelta(days=29), "last": today})
        found = {}
        if form.is_valid():
            first, last = form.cleaned_data["first"], form.cleaned_data["last"]
            rows = finished_between(first, last)
            if "csv" in request.GET:
                return download(gas_lines(rows), f"gas-{first}-{last}.csv")
            found = report(rows, first, last, form.cleaned_data["by"] or "relayer")
        context = {
            **self.admin_site.each_context(request),
            "title": "Gas spent",
            "opts": self.opts,
            "form": form,
            "back": reverse(LIST),
            **found,
        }
        return TemplateResponse(request, "admin/transactions/gas.html", context)
