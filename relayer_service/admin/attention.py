"""Items that need attention, at the top of the overview: each with a reason, its start and a link to fix it.

An app declares one function per subject in its `AppConfig`, by position on the page:
`attention_subjects = {20: "relayers.attention.relayers"}`. It returns None for staff who may not view the subject.
"""

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

from relayer_service.admin.references import and_more
from relayer_service.models import PeriodicRun, RowDelta
from relayer_service.observability import health

Result = TypeVar("Result")

SHOWN = 10
MINUTE = timedelta(minutes=1)
# Work that is overdue by more than this is reported.
LATE = 2 * MINUTE

PARTS = {
    "database": "Not responding.",
    "cache": "Not responding. Rate limits are not enforced.",
    "migrations": "Not all migrations are applied. Run manage.py migrate.",
    "encryption": "A key that encrypts secrets is missing from ENCRYPTION_KEYS or has a different value.",
    "peppers": "A token pepper is missing from TOKEN_PEPPERS or has a different value. Run manage.py tokens list.",
    "worker": "No worker is running, it cannot write, or periodic work is late. Webhooks and checks are delayed.",
}


@dataclass(frozen=True)
class AttentionItem:
    name: str
    # The page on which to fix it.
    url: str
    reason: str
    since: datetime | None = None

    @property
    def duration(self) -> str:
        began, now = self.since, timezone.now()
        assert began
        return timesince(began, now, depth=1) if now - began >= MINUTE else "less than a minute"


@dataclass(frozen=True)
class AttentionGroup:
    """One problem: the first items that have it, how many do, and the URL of their list."""

    title: str
    items: Sequence[AttentionItem]
    total: int
    url: str = ""
    # The theme's style of the number.
    variant: str = "warning"

    @property
    def number(self) -> str:
        return f"{self.total:,}"

    @property
    def more(self) -> str:
        return and_more(self.total - len(self.items))


@dataclass(frozen=True)
class AttentionSubject:
    name: str
    groups: Sequence[AttentionGroup]


def declared(attribute: str, request: HttpRequest) -> list[Any]:
    """Return the results of the functions that all apps declare under an attribute, by position."""
    positions = [item for app in apps.get_app_configs() for item in getattr(app, attribute, {}).items()]
    results = [import_string(path)(request) for _, path in sorted(positions)]
    return [result for result in results if result is not None]


def first_of(querysets: Mapping[str, QuerySet[Any]], conditions: Mapping[str, Q]) -> dict[str, list[Any]]:
    """Return by name the first rows of each queryset that match its condition, in one query."""
    branches = []
    for name, rows in querysets.items():
        first = rows.model._default_manager.filter(conditions[name]).order_by("pk").values("pk")[:SHOWN]
        branches.append(rows.order_by().filter(pk__in=first).annotate(group=Value(name, output_field=CharField())))
    found = defaultdict[str, list[Any]](list)
    for row in branches[0].union(*branches[1:], all=True):
        found[row.group].append(row)
    return {name: sorted(found[name], key=lambda row: row.pk) for name in querysets}


def counts_of(numbers: Mapping[str, QuerySet[Any]]) -> dict[str, int]:
    branches = [
        number.values_list(Value(name, output_field=CharField()), "number") for name, number in numbers.items()
    ]
    # PostgreSQL returns sums as decimals.
    return {name: int(number) for name, number in branches[0].union(*branches[1:], all=True)}


def number_of(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Return the query that counts rows, in an index if there is one."""
    number: QuerySet[Any] = rows.order_by().values(every=Value(1)).annotate(number=Count("*")).values("number")
    return number


def number_of_all(model: type[Model]) -> QuerySet[Any]:
    counted = RowDelta.objects.filter(list_name=model._meta.db_table)
    return counted.values(every=Value(1)).annotate(number=Sum("rows", default=0)).values("number")


def read_once(request: HttpRequest, read: Callable[[], Result]) -> Result:
    """Return the result of a function, which runs once per request."""
    results: dict[Callable[[], Result], Result] = request.__dict__.setdefault("read_once", {})
    if read not in results:
        results[read] = read()
    return results[read]


def periodic_runs() -> list[PeriodicRun]:
    return list(PeriodicRun.objects.all())


def service(request: HttpRequest) -> AttentionSubject:
    page = reverse("ready")
    may_view_runs = request.user.has_perm("relayer_service.view_periodicrun")
    runs = read_once(request, periodic_runs) if may_view_runs else []
    heartbeat = next((run.finished_at for run in runs if run.name == "heartbeat"), None)
    failed = [
        AttentionItem(name.capitalize(), page, PARTS[name], heartbeat if name == "worker" else None)
        for name, works in read_once(request, health.parts_that_work).items()
        if not works
    ]
    work = [
        AttentionItem(
            run.name.replace("_", " ").capitalize(),
            reverse("admin:relayer_service_periodicrun_change", args=[run.pk]),
            "The last run failed. See the log for its error.",
            run.finished_at,
        )
        for run in runs
        if run.failed
    ]
    list_url = reverse("admin:relayer_service_periodicrun_changelist")
    groups = [
        AttentionGroup("Failing parts of the service", failed, len(failed), page, "danger"),
        AttentionGroup("Failing periodic work", work, len(work), list_url),
    ]
    return AttentionSubject("the service and its worker", [group for group in groups if group.total])
