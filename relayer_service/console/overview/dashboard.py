"""The first page of the admin: items that need attention, then one card per subject.

An app declares the functions of its cards as `dashboard_cards` in its `AppConfig`, like `attention_subjects`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode

from relayer_service.audit.actors import ActorKind
from relayer_service.audit.models import type_of
from relayer_service.console.dates import ago
from relayer_service.console.overview.attention import declared, periodic_runs, read_once
from relayer_service.console.overview.getting_started import card as getting_started
from relayer_service.console.overview.incidents import rows_of
from relayer_service.health import views as health
from relayer_service.models import AuditEntry

# An edit of many objects is one change.
CHANGES_SHOWN, CHANGES_READ = 5, 500
# What was done in one change, by name.
MAX_TITLES = 3


@dataclass(frozen=True)
class Card:
    """A title, rows of cells that each start with a name, a chart, its ranges, and the URL of the page with more.

    Without rows and chart it is a line with the text for an empty card.
    """

    title: str
    rows: Sequence[Sequence[str]] = ()
    empty: str = ""
    url: str = ""
    chart: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    # Links of `range_links`, and the part of the page that they lead back to.
    ranges: Sequence[Mapping[str, Any]] = ()
    anchor: str = ""


def add_cards(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    attention, cards = rows_of(request), declared("dashboard_cards", request)
    quiet = [card for card in cards if not card.rows and not card.chart]
    full = [card for card in cards if card not in quiet]
    context |= {"title": "Overview", "getting_started": getting_started(request)}
    return context | {"attention": attention, "cards": full, "quiet_cards": quiet}


def link(text: str, url: str) -> str:
    return format_html('<a class="underline" href="{}">{}</a>', url, text)


def label(text: str, variant: str) -> str:
    return render_to_string("unfold/helpers/label.html", {"text": text, "variant": variant})


def described(name: str, text: str) -> str:
    return format_html('{}<div class="explained">{}</div>', name, text)


def alarm(count: int) -> str:
    return label(f"{count:,}", "danger") if count else "0"


def readiness(request: HttpRequest) -> Card:
    parts = read_once(request, health.parts_that_work)
    failed = [[name.capitalize(), label("failed", "danger")] for name, works in parts.items() if not works]
    return Card("Readiness", failed, f"All {len(parts)} parts of the service work.", reverse("ready"))


def periodic_work(request: HttpRequest) -> Card | None:
    if not request.user.has_perm("relayer_service.view_periodicrun"):
        return None
    runs = read_once(request, periodic_runs)
    problems = [(run, problem(run)) for run in runs]
    rows = [
        [run.name.replace("_", " ").capitalize(), ago(run.finished_at), label(text, "danger")]
        for run, text in problems
        if text
    ]
    on_time = f"All {len(runs)} periodic jobs are on time." if len(runs) > 1 else "The periodic job is on time."
    url = reverse("admin:relayer_service_periodicrun_changelist")
    return Card("Periodic work", rows, on_time if runs else "No worker has run yet.", url)


def problem(run: Any) -> str:
    """Return what is wrong with periodic work; "" if nothing is."""
    if run.failed:
        return "failed"
    return "late" if health.is_late(run.name, run.age) else ""


def own_changes(request: HttpRequest) -> Card:
    assert request.user.is_authenticated
    user = request.user.get_username()
    # Other kinds are excluded: to select this one, SQLite would search all entries of users.
    others = [kind for kind in ActorKind if kind != ActorKind.USER]
    own = AuditEntry.objects.filter(actor=user).exclude(actor_kind__in=others)
    together: dict[str, list[AuditEntry]] = {}
    for entry in own.defer("changes")[:CHANGES_READ]:
        is_sign_in = entry.action == AuditEntry.Action.ACTED and entry.object_type == type_of(request.user.__class__)
        if not is_sign_in:
            # The entries of a request or of a job; earlier ones have neither.
            together.setdefault(entry.request_id or str(entry.pk), []).append(entry)
    shown = [*together.values()][:CHANGES_SHOWN]
    rows = [[described(*summary(entries)), ago(entries[0].at)] for entries in shown]
    log = f"{reverse('admin:relayer_service_auditentry_changelist')}?{urlencode({'q': user})}"
    url = log if request.user.has_perm("relayer_service.view_auditentry") else ""
    return Card("Your last changes", rows, "You have not changed anything yet.", url)


def summary(entries: Sequence[AuditEntry]) -> tuple[str, str]:
    """Return the object of the newest entry with the number of others, and what was done, in its order."""
    newest, others = entries[0], len({key(entry) for entry in entries}) - 1
    number = f"{others:,}+" if len(entries) == CHANGES_READ else f"{others:,}"
    name = f"{newest.object_id} and {number} other{'s' if others > 1 else ''}" if others else newest.object_id
    # A new signer is also changed, by its verification.
    created = {key(entry) for entry in entries if entry.action == AuditEntry.Action.CREATED}
    done = [entry.title for entry in entries if entry.action != AuditEntry.Action.CHANGED or key(entry) not in created]
    first, *rest = dict.fromkeys(reversed(done))
    text = ", ".join([first, *(each[:1].lower() + each[1:] for each in rest)])
    return name, text if len(rest) < MAX_TITLES else "Several changes"


def key(entry: AuditEntry) -> tuple[str, str]:
    return entry.object_type, entry.object_pk
