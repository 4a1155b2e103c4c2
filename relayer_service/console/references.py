"""The rows of any app that refer to an object: their number, and links to the first of them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Count, Model
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from relayer_service.console.lists.changelists import MAX_LISTED

MAX_SHOWN = 10


def may_view_users(request: HttpRequest, model: type[Model], without: Sequence[type[Model]] = ()) -> bool:
    return all(
        request.user.has_perm(f"{other._meta.app_label}.view_{other._meta.model_name}")
        for other, _ in _relations(model, without)
    )


def used_by(obj: Model, *, linked: bool, without: Sequence[type[Model]] = ()) -> str:
    """Return the number of rows of each model that refer to an object, up to MAX_LISTED; if linked, with the first."""
    parts = []
    for model, field in _relations(type(obj), without):
        rows = model._default_manager.filter(**{field: obj})
        count = rows.order_by()[:MAX_LISTED].count()
        if not count:
            continue
        name = model._meta.verbose_name if count == 1 else model._meta.verbose_name_plural
        first = [link(row) for row in rows[:MAX_SHOWN]] if linked else []
        others = f"{count - len(first):,} more" if first and count > len(first) else ""
        more = format_html(" and {}", _list_link(model, field, obj, others)) if others else ""
        number = f"at least {count:,}" if count == MAX_LISTED else f"{count:,}"
        parts.append(format_html("{} {}: {}{}" if first else "{} {}", number, name, _join(", ", first), more))
    return _join("; ", parts) or "nothing"


def _join(separator: str, texts: Iterable[str]) -> SafeString:
    return format_html_join(separator, "{}", ((text,) for text in texts))


def in_use(objs: Iterable[Model], *, linked: bool, without: Sequence[type[Model]] = ()) -> list[str]:
    """Return a text for each object that cannot be deleted: the rows that refer to it, if linked, and what to do."""
    chosen = {obj.pk: obj for obj in objs}
    texts: list[str] = []
    for model, field in _relations(next(iter(chosen.values())).__class__, without) if chosen else ():
        rows = model._base_manager.filter(**{f"{field}__in": [*chosen]}).order_by()
        counts = dict(rows.values_list(field).annotate(count=Count("pk")))
        texts += [_use(chosen[pk], model, field, counts[pk], linked) for pk in sorted(counts)[:MAX_SHOWN]]
        if len(counts) > MAX_SHOWN:
            texts.append(f"{and_more(len(counts) - MAX_SHOWN)} that are in use")
    return texts


def _use(obj: Model, model: Any, field: str, count: int, linked: bool) -> str:
    kind = obj._meta.verbose_name
    name = model._meta.verbose_name if count == 1 else model._meta.verbose_name_plural
    used = f"{obj} is used by {count:,} {name}"
    advice = f"To delete the {kind}, change or delete the {name} first"
    if not linked:
        return f"{used}. {advice}."
    names = _join(", ", (link(row) for row in model._default_manager.filter(**{field: obj})[:MAX_SHOWN]))
    more = f" {and_more(count - MAX_SHOWN)}".rstrip()
    all_of_them = _list_link(model, field, obj, f"list the {name}")
    return format_html("{}: {}{}. {}: {}.", used, names, more, advice, all_of_them)


def and_more(number: int) -> str:
    """Return the end of a list that shows all but this number of its items."""
    return f"and {number:,} more" if number > 0 else ""


def _list_link(model: Any, field: str, obj: Model, text: str) -> str | SafeString:
    """Return a text, linked to the list of rows that refer to an object if it has a filter for them."""
    lookup = f"{field}__{obj._meta.pk.name}__exact"
    if lookup not in getattr(admin.site._registry.get(model), "allowed_keys", ()):
        return text
    url = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    return format_html('<a class="underline" href="{}?{}={}">{}</a>', url, lookup, obj.pk, text)


def _relations(model: type[Model], without: Sequence[type[Model]]) -> Iterator[tuple[Any, str]]:
    for relation in model._meta.related_objects:
        if relation.related_model not in without:
            yield relation.related_model, relation.field.name


def link(row: Model, text: str = "") -> str | SafeString:
    """Return the name of a row or another text, linked to its page."""
    if not admin.site.is_registered(type(row)):
        return text or str(row)
    url = reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])
    return format_html('<a class="underline" href="{}">{}</a>', url, text or row)
