"""Search in the lists of the admin, and the command palette, which searches all lists.

The query is one text, including spaces. It matches rows that have it in any part of their ID, name or address; a short
one, and any in a list that grows with traffic, those that start with it.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models import Case, Model, Q, QuerySet, Value, When
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from unfold.dataclasses import SearchResult

from relayer_service.console.theme import OTHER_PAGES
from relayer_service.database.nul import has_nul
from relayer_service.database.prefixes import CaseFolded, Scanned, starts_with
from relayer_service.database.substrings import contains, ends_with, shortened

EXACT = "__exact"
# With this number of matches, a scan in the order of the list fills its first page soon.
MANY = 1_000
# Number of results per model in the palette.
MAX_FOUND = 5
# What describes a result in the palette, if it has that. The admin of a model can declare others.
DESCRIBED_BY = ("name", "address", "verified_identity", "subject")


def find(
    rows: QuerySet[Any], texts: Iterable[tuple[str, str]], *, sort: bool = True, newest_first: bool = False
) -> QuerySet[Any]:
    """Return the rows with a column that starts with its text, or equals it if the name ends with `__exact`.

    Columns without a match are left out, as an OR over all columns might read the whole table. If one column remains,
    the rows are in the order of its index, in reverse for `newest_first`: of one text, the newest rows come first.
    """
    counts = {(name, text): _count(rows.model, _condition(name, text)) for name, text in texts}
    found = [each for each, count in counts.items() if count]
    if not found:
        return rows.none()
    folded = Scanned if len(found) > 1 and MANY in counts.values() else CaseFolded
    rows = rows.filter(reduce(or_, (_condition(name, text, folded) for name, text in found)))
    name = found[0][0]
    if not sort or len(found) > 1 or name.endswith(EXACT):
        return rows
    return rows.order_by(CaseFolded(name).desc(), "-pk") if newest_first else rows.order_by(CaseFolded(name), "pk")


def find_part(rows: QuerySet[Any], columns: Sequence[str], text: str, *, sort: bool = True) -> QuerySet[Any]:
    """Return the rows with a text in a column: those that start with it first, unless they are many."""
    condition = contains(columns, text)
    keys = [*rows.model._base_manager.filter(condition).order_by().values_list("pk", flat=True)[:MANY]]
    if len(keys) == MANY:
        return rows.filter(condition)
    # The table is searched once, and not again for the number of rows and each page.
    rows = rows.filter(pk__in=keys)
    if not sort:
        return rows
    at_start = reduce(or_, (starts_with(column, text) for column in columns))
    return rows.order_by(Case(When(at_start, Value(0)), default=Value(1)), CaseFolded(columns[0]), "pk")


def _condition(name: str, text: str, folded: type[CaseFolded] = CaseFolded) -> Q:
    if name.endswith(EXACT):
        return Q(**{name: text})
    if ends := shortened(text):
        return starts_with(name, ends[0], folded) & ends_with(name, ends[1])
    return starts_with(name, text, folded)


def _count(model: type[Model], condition: Q) -> int:
    return model._base_manager.filter(condition).order_by()[:MANY].count()


def palette(request: HttpRequest) -> HttpResponse:
    """Return the results of the command palette. The theme's own search would cache them for minutes."""
    text = request.GET.get("s", "").strip()
    if not text or has_nul(text):
        return HttpResponse()
    pages = _pages(request)
    context = {"text": text, "results": [*_named(pages, text), *_objects(request, pages, text)]}
    return TemplateResponse(request, "unfold/helpers/command_results.html", context, headers={"HX-Trigger": "search"})


def _pages(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the pages that the user may open: those of the sidebar in its order, then those that it leaves out."""
    site: Any = admin.site
    items = [item for group in site.get_sidebar_list(request) for item in group["items"]]
    others = [page for page in OTHER_PAGES if page.get("permission", bool)(request)]
    return [item for item in items if item["has_permission"]] + others


def _named(pages: list[dict[str, Any]], text: str) -> Iterator[SearchResult]:
    for page in pages:
        if f" {text.lower()}" in f" {page['title'].lower()}":
            yield SearchResult(title=page["title"], description="Page", link=str(page["link"]), icon=page["icon"])


def _objects(request: HttpRequest, pages: list[dict[str, Any]], text: str) -> Iterator[SearchResult]:
    """Yield the objects of the lists that are among the pages, in their order."""
    admins = {reverse(f"{_prefix(each)}_changelist"): each for each in admin.site._registry.values()}
    for model_admin in filter(None, (admins.get(str(page["link"])) for page in pages)):
        is_searched = getattr(model_admin, "in_palette", True) and model_admin.get_search_fields(request)
        if not is_searched or not model_admin.has_view_permission(request):
            continue
        rows, _ = model_admin.get_search_results(request, model_admin.get_queryset(request), text)
        prefix = _prefix(model_admin)
        objects = list(rows[: MAX_FOUND + 1])
        columns = getattr(model_admin, "palette_columns", DESCRIBED_BY)
        for row in objects[:MAX_FOUND]:
            link = reverse(f"{prefix}_change", args=[row.pk])
            values = filter(None, (getattr(row, name, "") for name in columns))
            description = ", ".join([str(row._meta.verbose_name).capitalize(), *map(str, values)])
            yield SearchResult(title=str(row), description=description, link=link, icon="data_object")
        if len(objects) > MAX_FOUND:
            title = f"All {model_admin.opts.verbose_name_plural} that match {text}"
            link = f"{reverse(f'{prefix}_changelist')}?{urlencode({'q': text})}"
            yield SearchResult(title=title, description="List", link=link, icon="list")


def _prefix(model_admin: Any) -> str:
    return f"admin:{model_admin.opts.app_label}_{model_admin.opts.model_name}"
