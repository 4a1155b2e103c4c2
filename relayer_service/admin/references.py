"""What refers to an object, of whichever app: how many rows, and the first of them as links."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Count, Model
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from relayer_service.admin.pagination import MAX_LISTED

MAX_SHOWN = 10
MAX_DIGITS = 18


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
        first = [link(row) for row in rows[:MAX_SHOWN]] if linked else []
        names = format_html_join(", ", "{}", ((link,) for link in first))
        others = f"{count - len(first):,} more" if first and count > len(first) else ""
        more = format_html(" and {}", _list_link(model, field, obj, others)) if others else ""
        number = f"at least {count:,}" if count == MAX_LISTED else f"{count:,}"
        parts.append(format_html("{} {}: {}{}" if first else "{} {}", number, name, names, more))
    return format_html_join("; ", "{}", ((part,) for part in parts)) or "nothing"


def in_use(objs: Iterable[Model], *, linked: bool, without: Sequence[type[Model]] = ()) -> list[str]:
    """Return what keeps objects from being deleted, a text for each with what to do instead.

    The rows that refer to them are counted; where they are linked, the first are named, and a link leads to all.
    """
    chosen = {obj.pk: obj for obj in objs}
    texts: list[str] = []
    for model, field in _relations(next(iter(chosen.values())).__class__, without) if chosen else ():
        rows = model._base_manager.filter(**{f"{field}__in": [*chosen]}).order_by()
        counts = dict(rows.values_list(field).annotate(count=Count("pk")))
        texts += [_use(chosen[pk], model, field, counts[pk], linked) for pk in sorted(counts)[:MAX_SHOWN]]
        if len(counts) > MAX_SHOWN:
            texts.append(f"and {len(counts) - MAX_SHOWN:,} more that are used")
    return texts


def _use(obj: Model, model: Any, field: str, count: int, linked: bool) -> str:
    kind = obj._meta.verbose_name
    name = model._meta.verbose_name if count == 1 else model._meta.verbose_name_plural
    used = f"{obj} is used by {count:,} {name}"
    advice = f"To delete the {kind}, point the {name} to another one or delete the {name} first"
    if not linked:
        return f"{used}. {advice}."
    first = model._default_manager.filter(**{field: obj})[:MAX_SHOWN]
    names = format_html_join(", ", "{}", ((link(row),) for row in first))
    more = f" and {count - MAX_SHOWN:,} more" if count > MAX_SHOWN else ""
    all_of_them = _list_link(model, field, obj, f"list the {name}")
    return format_html("{}: {}{}. {}: {}.", used, names, more, advice, all_of_them)


def _list_link(model: Any, field: str, obj: Model, text: str) -> str | SafeString:
    """Return a text as a link to the rows that refer to an object, where their list can be filtered by it."""
    lookup = f"{field}__{obj._meta.pk.name}__exact"
    if lookup not in getattr(admin.site._registry.get(model), "allowed_keys", ()):
        return text
    url = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    return format_html('<a class="underline" href="{}?{}={}">{}</a>', url, lookup, obj.pk, text)


def is_key(value: str) -> bool:
    """Return whether a value can be the key of a row: no more than a database accepts as a number."""
    return len(str(value)) <= MAX_DIGITS


def _relations(model: type[Model], without: Sequence[type[Model]]) -> Iterator[tuple[Any, str]]:
    for relation in model._meta.related_objects:
        if relation.related_model not in without:
            yield relation.related_model, relation.field.name


def link(row: Model) -> str | SafeString:
    """Return the name of a row, as a link to its page where it has one."""
    if not admin.site.is_registered(type(row)):
        return str(row)
    url = reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])
    return format_html('<a class="underline" href="{}">{}</a>', url, row)
