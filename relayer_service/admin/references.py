"""What refers to an object, of whichever app: how many rows, and the first of them as links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from relayer_service.admin.pagination import MAX_LISTED

MAX_SHOWN = 10


def may_view_users(request: HttpRequest, model: type[Model], without: Sequence[type[Model]] = ()) -> bool:
    """Return whether somebody may see every kind of row that refers to a model."""
    return all(
        request.user.has_perm(f"{other._meta.app_label}.view_{other._meta.model_name}")
        for other, _ in _relations(model, without)
    )


def used_by(obj: Model, *, linked: bool, without: Sequence[type[Model]] = ()) -> str:
    """Return what refers to an object: the number of rows of each kind and, where they are linked, the first of them.

    However many there are, no more than the first are read, and no more are counted than a list has pages for.
    """
    parts = []
    for model, field in _relations(type(obj), without):
        rows = model._default_manager.filter(**{field: obj})
        count = rows.order_by()[:MAX_LISTED].count()
        if not count:
            continue
        name = model._meta.verbose_name if count == 1 else model._meta.verbose_name_plural
        first = [_link(row) for row in rows[:MAX_SHOWN]] if linked else []
        names = format_html_join(", ", "{}", ((link,) for link in first))
        more = _more(obj, model, field, count - len(first)) if first and count > len(first) else ""
        number = f"at least {count:,}" if count == MAX_LISTED else f"{count:,}"
        parts.append(format_html("{} {}: {}{}" if first else "{} {}", number, name, names, more))
    return format_html_join("; ", "{}", ((part,) for part in parts)) or "nothing"


def _relations(model: type[Model], without: Sequence[type[Model]]) -> Iterator[tuple[Any, str]]:
    for relation in model._meta.related_objects:
        if relation.related_model not in without:
            yield relation.related_model, relation.field.name


def _more(obj: Model, model: type[Model], field: str, count: int) -> str | SafeString:
    """Return how many are not named, as a link to their list where it can be filtered by what they refer to."""
    lookup = f"{field}__{obj._meta.pk.name}__exact"
    text = f"{count:,} more"
    if lookup not in getattr(admin.site._registry.get(model), "allowed_keys", ()):
        return f" and {text}"
    url = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    return format_html(' and <a class="underline" href="{}?{}={}">{}</a>', url, lookup, obj.pk, text)


def _link(row: Model) -> str | SafeString:
    if not admin.site.is_registered(type(row)):
        return str(row)
    url = reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])
    return format_html('<a class="underline" href="{}">{}</a>', url, row)
