"""The first page of the admin: items that need attention, then one card per subject.

An app declares the functions of its cards as `dashboard_cards` in its `AppConfig`, like `attention_subjects`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html

from relayer_service.admin.attention import declared, periodic_runs, read_once
from relayer_service.admin.dates import ago
from relayer_service.audit.actors import ActorKind
from relayer_service.models import AuditEntry
from relayer_service.observability import health

CHANGES_SHOWN = 5


@dataclass(frozen=True)
class Card:
    """A title, rows of cells that each start with a name, a chart, and the URL of the page with more."""

    title: str
    rows: Sequence[Sequence[str]] = ()
    empty: str = ""
    url: str = ""
    chart: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


def add_cards(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    subjects = declared("attention_subjects", request)
    groups = [group for subject in subjects for group in subject.groups]
    attention = {"subjects": subjects, "groups": groups, "at": timezone.now()}
    return context | {"title": "Overview", "attention": attention, "cards": declared("dashboard_cards", request)}


def link(text: str, url: str) -> str:
    return format_html('<a class="underline" href="{}">{}</a>', url, text)


def label(text: str, variant: str) -> str:
    return render_to_string("unfold/helpers/label.html", {"text": text, "variant": variant})


def alarm(count: int) -> str:
    return label(f"{count:,}", "danger") if count else "0"


def outcome(ok: bool) -> str:
    return label("ok", "success") if ok else label("failed", "danger")


def readiness(request: HttpRequest) -> Card:
    rows = [[name.capitalize(), outcome(works)] for name, works in read_once(request, health.parts_that_work).items()]
    return Card("Readiness", rows, url=reverse("ready"))


def periodic_work(request: HttpRequest) -> Card | None:
    if not request.user.has_perm("relayer_service.view_periodicrun"):
        return None
    rows = [
        [run.name.replace("_", " ").capitalize(), ago(run.finished_at), outcome(not run.failed)]
        for run in read_once(request, periodic_runs)
    ]
    url = reverse("admin:relayer_service_periodicrun_changelist")
    return Card("Periodic work", rows, "No worker has run yet.", url)


def own_changes(request: HttpRequest) -> Card:
    assert request.user.is_authenticated
    own = AuditEntry.objects.filter(actor=request.user.get_username(), actor_kind=ActorKind.USER)
    rows = [[entry.object_id, entry.get_action_display(), ago(entry.at)] for entry in own[:CHANGES_SHOWN]]
    return Card("Your last changes", rows, "You have not changed anything yet.")
