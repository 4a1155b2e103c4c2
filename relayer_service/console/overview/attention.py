"""Problems at the top of the overview, grouped by cause: one row each, with its number, its start and its list.

An app declares one function per subject in its `AppConfig`, by position on the page:
`attention_subjects = {20: "relayers.console.overview.attention"}`. It returns None for staff who may not view it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from django.apps import apps
from django.db.models import CharField, Count, DateTimeField, F, IntegerField, Max, Min, Model, QuerySet, Sum, Value
from django.db.models.functions import Cast, Now
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.module_loading import import_string
from django.utils.timesince import timesince

from relayer_service.health import views as health
from relayer_service.models import PeriodicRun, RowDelta, WorkerProcess

Result = TypeVar("Result")

# Causes of one subject that are read. There are as many as networks, errors and signers in trouble.
MAX_CAUSES = 1_000
NOT_SEVERE = Value(0)
# The start of work that is late only for a while: what is late next is not a new problem.
UNKNOWN = Cast(Value(None), DateTimeField())
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
TIMED_OUT = "The check did not respond in time."


@dataclass(frozen=True)
class Example:
    """The first row of a cause: its name, its page, and what is wrong with it."""

    name: str
    url: str
    reason: str


@dataclass(frozen=True)
class Cause:
    """Everything that has the same problem for the same reason."""

    # Identifies it from one request to the next, with the group: "relayers.low", "mainnet".
    kind: str
    group: str
    title: str
    number: int
    # The noun that is counted, in the singular.
    unit: str
    url: str
    since: datetime | None = None
    # The theme's style of the number.
    variant: str = "warning"
    reason: str = ""
    # The primary key of the first row.
    first: int | None = None
    # The latest start of all that have it.
    newest: datetime | None = None
    # The network that it is limited to, if any.
    network: str = ""

    @property
    def key(self) -> str:
        return f"{self.kind}:{self.group}"

    @property
    def is_severe(self) -> bool:
        return self.variant == "danger"

    @property
    def counted(self) -> str:
        return f"{self.number:,} {self.unit if self.number == 1 else plural(self.unit)}"

    @property
    def duration(self) -> str:
        began, now = self.since, timezone.now()
        assert began
        return timesince(began, now, depth=1) if now - began >= MINUTE else "less than a minute"


def plural(unit: str) -> str:
    return f"{unit.removesuffix('y')}ies" if unit.endswith("ry") else f"{unit}s"


@dataclass(frozen=True)
class AttentionSubject:
    """What was checked, the problems that were found, and a function for the first row of those that are shown."""

    name: str
    causes: Sequence[Cause]
    examples: Callable[[Sequence[Cause]], Mapping[str, Example]] = lambda causes: {}
    # Returns the primary keys of the relayers that have a cause, or None if it is not about relayers.
    relayers: Callable[[Cause], QuerySet[Any, Any] | None] = lambda cause: None


class GroupedRows(NamedTuple):
    """Rows of one kind and group: their number, first and last start, first key, and 1 if any of them is severe."""

    kind: str
    group: str
    number: int
    since: datetime | None
    newest: datetime | None
    first: int
    severe: int

    def cause(self, title: str, unit: str, url: str, reason: str = "", network: str = "") -> Cause:
        """Return their cause; with a reason, no row is an example of it."""
        variant, first = "danger" if self.severe else "warning", None if reason else self.first
        return Cause(
            *(self.kind, self.group, title, self.number, unit, url),
            *(self.since, variant, reason, first, self.newest, network),
        )


def declared_functions(attribute: str) -> list[Callable[[HttpRequest], Any]]:
    """Return the functions that all apps declare under an attribute, by position."""
    positions = [item for app in apps.get_app_configs() for item in getattr(app, attribute, {}).items()]
    return [import_string(path) for _, path in sorted(positions)]


def declared(attribute: str, request: HttpRequest) -> list[Any]:
    """Return the results of the functions that all apps declare under an attribute, by position."""
    results = [function(request) for function in declared_functions(attribute)]
    return [result for result in results if result is not None]


def grouped(
    kind: str,
    rows: QuerySet[Any],
    by: Any,
    since: Any,
    severe: Any = NOT_SEVERE,
    newest: Any = None,
) -> QuerySet[Any, Any]:
    """Return the query of the rows of one kind, grouped by an expression."""
    # Names that no model has a field of.
    # A column is not converted, so that its index has the groups in order.
    group = F(by) if isinstance(by, str) else Cast(by, CharField())
    labels = {"cause_kind": Value(kind, output_field=CharField()), "cause_group": group}
    totals = {
        "cause_number": Count("*"),
        "cause_since": Min(since),
        "cause_newest": Max(newest or since),
        "cause_first": Min("pk"),
        "cause_severe": Max(Cast(severe, IntegerField())),
    }
    groups = rows.order_by().annotate(**labels).values(*labels).annotate(**totals)
    found: QuerySet[Any, Any] = groups.values_list(*labels, *totals)
    return found


def read_groups(*queries: QuerySet[Any, Any]) -> list[GroupedRows]:
    """Run queries of `grouped` as one; return their groups without empty ones."""
    found = queries[0].union(*queries[1:], all=True).order_by("-cause_number")[:MAX_CAUSES]
    return [GroupedRows(*row) for row in found if row[2]]


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


def periodic_runs() -> list[Any]:
    """Return the last runs of periodic work, with their age by the database's clock."""
    return list(PeriodicRun.objects.annotate(age=Now() - F("started_at")))


def service(request: HttpRequest) -> AttentionSubject:
    page = reverse("ready")
    may_view_runs = request.user.has_perm("relayer_service.view_periodicrun")
    runs = read_once(request, periodic_runs) if may_view_runs else []
    heartbeat = next((run.finished_at for run in runs if run.name == "heartbeat"), None)
    causes = [
        Cause(
            *("service.part", name, f"Failing part of the service: {name}", 1, "part", page),
            since=heartbeat if name == "worker" else None,
            variant="danger",
            reason=TIMED_OUT if health.has_timed_out(name) else PARTS[name],
        )
        for name, works in read_once(request, health.parts_that_work).items()
        if not works
    ]
    if failed := [run for run in runs if run.failed]:
        since = min((run.finished_at for run in failed if run.finished_at), default=None)
        names = ", ".join(run.name.replace("_", " ") for run in failed)
        reason = f"The last run failed: {names}. See the log for the errors."
        url = reverse("admin:relayer_service_periodicrun_changelist")
        causes.append(
            Cause("service.periodic", "", "Failing periodic work", len(failed), "job", url, since, reason=reason)
        )
    silent = WorkerProcess.objects.filter(silent_since__isnull=False).order_by("silent_since")
    if may_view_runs and (found := list(silent[:MAX_CAUSES])):
        reason = f"No worker has started since: {', '.join(worker.name for worker in found[:3])}."
        title, since = "Workers that were killed or hang", found[0].silent_since
        causes.append(Cause("service.workers", "", title, len(found), "worker", page, since, "danger", reason))
    return AttentionSubject("the service and its worker", causes)
