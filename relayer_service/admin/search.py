"""Search by prefix in the lists of the admin, and the command palette, which searches all lists.

The query is one text, including spaces. It matches rows whose ID, name or address starts with it.
"""

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from unfold.dataclasses import SearchResult

from relayer_service.storage.nul import has_nul
from relayer_service.storage.prefixes import Folded, Scanned, starts_with

EXACT = "__exact"
# With this number of matches, a scan in the order of the list fills its first page soon.
MANY = 1_000
# Number of results per model in the palette.
MAX_FOUND = 5


def find(rows: QuerySet[Any], texts: Iterable[tuple[str, str]], *, sort: bool = True) -> QuerySet[Any]:
    """Return the rows with a column that starts with its text, or equals it if the name ends with `__exact`.

    Columns without a match are left out, as an OR over all columns might read the whole table. If one column remains,
    the rows are in the order of its index.
    """
    counts = {(name, text): _count(rows.model, _condition(name, text)) for name, text in texts}
    found = [each for each, count in counts.items() if count]
    if not found:
        return rows.none()
    folded = Scanned if len(found) > 1 and MANY in counts.values() else Folded
    rows = rows.filter(reduce(or_, (_condition(name, text, folded) for name, text in found)))
    name = found[0][0]
    if not sort or len(found) > 1 or name.endswith(EXACT):
        return rows
    return rows.order_by(Folded(name), "pk")


def _condition(name: str, text: str, folded: type[Folded] = Folded) -> Q:
    return Q(**{name: text}) if name.endswith(EXACT) else starts_with(name, text, folded)


def _count(model: type[Model], condition: Q) -> int:
    return model._base_manager.filter(condition).order_by()[:MANY].count()


def palette(request: HttpRequest) -> HttpResponse:
    """Return the results of the command palette. The theme's own search would cache them for minutes."""
    text = request.GET.get("s", "").strip()
    if not text or has_nul(text):
        return HttpResponse()
    context = {"text": text, "results": [*_pages(request, text), *_objects(request, text)]}
    return TemplateResponse(request, "unfold/helpers/command_results.html", context, headers={"HX-Trigger": "search"})


def _pages(request: HttpRequest, text: str) -> Iterator[SearchResult]:
    for app in admin.site.get_app_list(request):
        for model in app["models"]:
            if model["admin_url"] and f" {text.lower()}" in f" {str(model['name']).lower()}":
                yield SearchResult(title=str(model["name"]), description="List", link=model["admin_url"], icon="list")


def _objects(request: HttpRequest, text: str) -> Iterator[SearchResult]:
    for model_admin in admin.site._registry.values():
        is_searched = getattr(model_admin, "in_palette", True) and model_admin.get_search_fields(request)
        if not is_searched or not model_admin.has_view_permission(request):
            continue
        rows, _ = model_admin.get_search_results(request, model_admin.get_queryset(request), text)
        page = f"admin:{model_admin.opts.app_label}_{model_admin.opts.model_name}"
        objects = list(rows[: MAX_FOUND + 1])
        for row in objects[:MAX_FOUND]:
            link = reverse(f"{page}_change", args=[row.pk])
            names = [getattr(row, name, "") for name in ("name", "address", "verified_identity", "subject")]
            description = ", ".join(filter(None, [str(row._meta.verbose_name).capitalize(), *names]))
            yield SearchResult(title=str(row), description=description, link=link, icon="data_object")
        if len(objects) > MAX_FOUND:
            title = f"All {model_admin.opts.verbose_name_plural} that start with {text}"
            link = f"{reverse(f'{page}_changelist')}?{urlencode({'q': text})}"
            yield SearchResult(title=title, description="List", link=link, icon="list")
