"""What needs somebody's attention, first on the overview: by name, with a reason, since when, and where it is fixed.

An app names the functions that check a subject each in its `AppConfig`, by their positions among those of all apps:

    attention_subjects = {20: "relayers.attention.relayers"}

Such a function returns None for staff who may not see its subject.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.apps import apps
from django.db.models import CharField, Count, Model, Q, QuerySet, Sum, Value
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.module_loading import import_string
from django.utils.timesince import timesince

from relayer_service.models import PeriodicRun, RowDelta
from relayer_service.observability import health

Result = TypeVar("Result")

SHOWN = 10
MINUTE = timedelta(minutes=1)
# Work that is due for longer waits for a worker.
LATE = 2 * MINUTE

PARTS = {
    "database": "It does not answer.",
    "cache": "It does not answer: rate limits are not enforced.",
    "migrations": "Some were not applied: run manage.py migrate.",
    "encryption": "A key that secrets are encrypted with is missing from ENCRYPTION_KEYS, or has another value there.",
    "peppers": "A pepper of tokens is missing from TOKEN_PEPPERS, or has another value there: manage.py tokens list.",
    "worker": "No worker runs, it cannot write, or periodic work is late: webhooks, checks and prices wait.",
}


@dataclass(frozen=True)
class AttentionItem:
    """Something that needs attention, and the page on which it is fixed."""

    name: str
    url: str
    reason: str
    since: datetime | None = None

    @property
    def duration(self) -> str:
        """How long it lasts already, in the largest unit."""
        began, now = self.since, timezone.now()
        assert began
        return timesince(began, now, depth=1) if now - began >= MINUTE else "less than a minute"


@dataclass(frozen=True)
class AttentionGroup:
    """One thing that is wrong: some of those that have it, how many have it in all, and the list of them."""

    title: str
    items: Sequence[AttentionItem]
    total: int
    url: str = ""
    # How the theme marks the number of them.
    variant: str = "warning"

    @property
    def number(self) -> str:
        return f"{self.total:,}"

    @property
    def more(self) -> str:
        others = self.total - len(self.items)
        return f"and {others:,} more" if others > 0 else ""


@dataclass(frozen=True)
class AttentionSubject:
    """A subject that was checked, and what is wrong there."""

    name: str
    groups: Sequence[AttentionGroup]


@dataclass(frozen=True)
class Attention:
    """All subjects that the user may see."""

    subjects: Sequence[AttentionSubject]
    at: datetime

    @property
    def groups(self) -> list[AttentionGroup]:
        return [group for subject in self.subjects for group in subject.groups]


def attention(request: HttpRequest) -> Attention:
    return Attention(declared("attention_subjects", request), timezone.now())


def declared(attribute: str, request: HttpRequest) -> list[Any]:
    """Return what the functions that all apps have declared return for a request, in the order of their positions."""
    positions = [item for app in apps.get_app_configs() for item in getattr(app, attribute, {}).items()]
    found = [import_string(path)(request) for _, path in sorted(positions)]
    return [each for each in found if each is not None]


def first_of(querysets: Mapping[str, QuerySet[Any]], conditions: Mapping[str, Q]) -> dict[str, list[Any]]:
    """Return by name the first rows of each queryset for which its condition holds, in one query."""
    branches = []
    for name, rows in querysets.items():
        first = rows.model._default_manager.filter(conditions[name]).order_by("pk").values("pk")[:SHOWN]
        branches.append(rows.order_by().filter(pk__in=first).annotate(group=Value(name, output_field=CharField())))
    found = defaultdict[str, list[Any]](list)
    for row in branches[0].union(*branches[1:], all=True):
        found[row.group].append(row)
    return {name: sorted(found[name], key=lambda row: row.pk) for name in querysets}


def counts_of(numbers: Mapping[str, QuerySet[Any]]) -> dict[str, int]:
    """Return numbers by name, in one query."""
    names = [Value(name, output_field=CharField()) for name in numbers]
    branches = [number.values_list(name, "number") for name, number in zip(names, numbers.values(), strict=True)]
    # A sum is a decimal number on PostgreSQL.
    return {name: int(number) for name, number in branches[0].union(*branches[1:], all=True)}


def number_of(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Return the query of how many rows there are, which the database counts in an index if it has one."""
    number: QuerySet[Any] = rows.order_by().values(every=Value(1)).annotate(number=Count("*")).values("number")
    return number


def number_of_all(model: type[Model]) -> QuerySet[Any]:
    """Return the query of how many rows a table has, of which the database keeps count."""
    counted = RowDelta.objects.filter(list_name=model._meta.db_table)
    return counted.values(every=Value(1)).annotate(number=Sum("rows", default=0)).values("number")


def read_once(request: HttpRequest, read: Callable[[], Result]) -> Result:
    """Return what a function reads, and the same in the rest of the request."""
    known = request.__dict__.setdefault("read_once", {})
    if read not in known:
        known[read] = read()
    result: Result = known[read]
    return result


def periodic_runs() -> list[PeriodicRun]:
    return list(PeriodicRun.objects.all())


def service(request: HttpRequest) -> AttentionSubject:
    """Return which parts of the service and which periodic work fail."""
    page = reverse("ready")
    may_view_runs = request.user.has_perm("relayer_service.view_periodicrun")
    runs = read_once(request, periodic_runs) if may_view_runs else []
    beats = {run.name: run.finished_at for run in runs}
    failed = [
        AttentionItem(name.capitalize(), page, PARTS[name], beats.get("heartbeat") if name == "worker" else None)
        for name, works in read_once(request, health.parts_that_work).items()
        if not works
    ]
    work = [
        AttentionItem(
            run.name.replace("_", " ").capitalize(),
            reverse("admin:relayer_service_periodicrun_change", args=[run.pk]),
            "The newest run failed; the log has its error.",
            run.finished_at,
        )
        for run in runs
        if run.failed
    ]
    groups = [
        AttentionGroup("Parts of the service that fail", failed, len(failed), page, "danger"),
        AttentionGroup(
            "Periodic work that fails", work, len(work), reverse("admin:relayer_service_periodicrun_changelist")
        ),
    ]
    return AttentionSubject("the service and its worker", [group for group in groups if group.total])
