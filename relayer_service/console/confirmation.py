"""The confirmation page of an action: how many rows it affects, the first of them, and what happens to them.

The page posts the selection back, so that the action affects exactly these rows, even if the list has changed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from django import forms
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import BadRequest
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from unfold.widgets import UnfoldAdminTextareaWidget

from relayer_service.console.references import and_more, link
from relayer_service.storage.selections import Selection, SelectionError

# The form field that holds the selection.
CONFIRMED = "confirmed"
MAX_SHOWN = 10
MAX_REASON_LENGTH = 500
# PostgreSQL accepts 65,535 parameters per statement.
COUNT_BATCH = 10_000


class ReasonForm(forms.Form):
    reason = forms.CharField(
        max_length=MAX_REASON_LENGTH,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}),
        help_text="Shown on the pages of the changed objects, and kept in the audit log.",
    )

    def __init__(self, *args: Any, required: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["reason"].required = required


@dataclass(frozen=True)
class Table:
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    more: int = 0

    @property
    def labelled_rows(self) -> list[list[tuple[str, str]]]:
        return [[*zip(self.headers, row, strict=True)] for row in self.rows]

    @property
    def and_more(self) -> str:
        return and_more(self.more)


@dataclass(frozen=True)
class PendingAction:
    """The selected rows of an action, whether it was confirmed, and the URL to return to."""

    selection: Selection
    is_confirmed: bool
    back: str
    hidden: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def in_list(cls, request: HttpRequest, action: str, rows: QuerySet[Any], limit: int | None = None) -> Self:
        """Return the action of a list on the rows that were confirmed, or else on those that are selected."""
        is_confirmed = CONFIRMED in request.POST
        try:
            selection = (
                Selection.parse(request.POST[CONFIRMED]) if is_confirmed else Selection.from_queryset(rows, limit)
            )
        except SelectionError as error:
            raise BadRequest(str(error)) from None
        # Django needs a selected row to run the action again.
        first = selection.first(1) or [0]
        hidden = {"action": action, ACTION_CHECKBOX_NAME: first[0], CONFIRMED: str(selection)}
        return cls(selection, is_confirmed, request.get_full_path(), hidden)

    @classmethod
    def on_page(cls, request: HttpRequest, key: int, page: str) -> Self:
        return cls(Selection.from_keys([key]), request.method == "POST", page)

    def leave(self) -> HttpResponse:
        return HttpResponseRedirect(self.back)

    def first(self, rows: QuerySet[Any], columns: Mapping[str, Callable[[Any], str]]) -> Table:
        """Return a table of the first rows: a link to each, and columns by header."""
        shown = list(rows.filter(pk__in=self.selection.first(MAX_SHOWN)).order_by("pk"))
        cells = [[link(row), *(column(row) for column in columns.values())] for row in shown]
        name = str(rows.model._meta.verbose_name).capitalize()
        return Table([name, *columns], cells, max(0, len(self.selection) - MAX_SHOWN))

    def count(self, rows: QuerySet[Any]) -> int:
        return sum(rows.filter(condition).count() for condition in self.selection.conditions(COUNT_BATCH))


def ask(
    request: HttpRequest,
    model_admin: Any,
    pending: PendingAction,
    title: str,
    texts: Sequence[str],
    table: Table | None,
    form: forms.Form | None = None,
    button: str = "",
    **details: Any,
) -> TemplateResponse:
    """Return the page. Its button has the title, unless it has a text of its own; `details` are for its template."""
    context = {
        **model_admin.admin_site.each_context(request),
        "title": title,
        "opts": model_admin.opts,
        "texts": texts,
        "table": table,
        "form": form,
        "button": button or title,
        "hidden": pending.hidden,
        "back": pending.back,
        **details,
    }
    return TemplateResponse(request, "admin/confirmation.html", context)
