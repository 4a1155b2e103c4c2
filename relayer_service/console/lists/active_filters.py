"""The active filters of a list, each with the query of the list without it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.admin.views.main import ERROR_FLAG, PAGE_VAR
from django.http import HttpRequest, QueryDict

# A primary key has at most this many digits.
MAX_DIGITS = 18


@dataclass(frozen=True)
class ActiveFilter:
    """A chosen value of a filter, and the query of the list without it."""

    title: str
    value: str
    without: str


def active_filters(request: HttpRequest, specs: Sequence[Any], site: AdminSite) -> list[ActiveFilter]:
    found = []
    for spec in specs:
        for name in spec.expected_parameters():
            for value in filter(None, request.GET.getlist(name)):
                query = first_page(request)
                query.setlist(name, [each for each in query.getlist(name) if each != value])
                shown = _shown_value(request, spec, value, site)
                found.append(ActiveFilter(_title(spec, name), shown, f"?{query.urlencode()}"))
    return found


def without_filters(request: HttpRequest, specs: Sequence[Any]) -> str:
    query = first_page(request)
    for name in (name for spec in specs for name in spec.expected_parameters()):
        query.pop(name, None)
    return f"?{query.urlencode()}"


def first_page(request: HttpRequest) -> QueryDict:
    query = request.GET.copy()
    for name in (PAGE_VAR, ERROR_FLAG):
        query.pop(name, None)
    return query


def _title(spec: Any, name: str) -> str:
    end = next((end for end in ("from", "to") if name == f"{getattr(spec, 'field_path', None)}_{end}"), "")
    return f"{spec.title} {end}".strip().capitalize()


def _shown_value(request: HttpRequest, spec: Any, value: str, site: AdminSite) -> str:
    field: Any = getattr(spec, "field", None)
    model: Any = getattr(field, "related_model", None)
    related = site._registry.get(model)
    if related and related.has_view_permission(request) and value.isdecimal() and len(value) <= MAX_DIGITS:
        return str(related.model._base_manager.filter(pk=value).first() or value)
    choices = getattr(field, "flatchoices", None) or getattr(spec, "lookup_choices", [])
    return next((str(label) for key, label in choices if str(key) == value), value)
