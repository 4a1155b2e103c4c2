"""The rows of "Needs attention": which causes are shown, which ones staff have acknowledged, and both buttons.

An acknowledged cause stays hidden while it is not worse than it was: as many or fewer, not more severe, and all of it
older than the acknowledgement. Of late work, which is always new, it is enough that some of it is older.

An app declares what returns the pages of incidents by cause as `incident_urls`, like `attention_subjects`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from django.contrib import messages
from django.contrib.auth.decorators import permission_required
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from relayer_service.audit.recording import acted, record, snapshot
from relayer_service.background.tasks import periodic
from relayer_service.console.overview.attention import (
    MAX_CAUSES,
    AttentionSubject,
    Cause,
    Example,
    declared,
    declared_functions,
)
from relayer_service.models import Acknowledgement

logger = logging.getLogger(__name__)

MAX_ROWS = 15
MAX_ACKNOWLEDGED = 50
PERMISSION = "relayer_service.acknowledge"
OLDEST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Row:
    cause: Cause
    example: Example | None = None
    acknowledgement: Acknowledgement | None = None
    # The page of its incident, for staff who may view it.
    incident_url: str = ""


@dataclass(frozen=True)
class Rows:
    """What "Needs attention" shows."""

    subjects: Sequence[AttentionSubject]
    rows: Sequence[Row]
    acknowledged: Sequence[Row]
    # Causes without a row of their own, by the name of their subject and the URL of a list.
    others: Mapping[tuple[str, str], int]
    may_acknowledge: bool
    at: datetime

    @property
    def others_number(self) -> int:
        return sum(self.others.values())


def rows_of(request: HttpRequest, is_shown: Callable[[Cause], bool] = lambda cause: True) -> Rows:
    """Return the rows of all causes that the user may view, or of some."""
    subjects: list[AttentionSubject] = [
        replace(subject, causes=[cause for cause in subject.causes if is_shown(cause)])
        for subject in declared("attention_subjects", request)
    ]
    stored = {each.cause: each for each in Acknowledgement.objects.all()}
    visible, acknowledged = [], []
    for cause in (cause for subject in subjects for cause in subject.causes):
        known = stored.get(cause.key)
        if known and hides(known, cause):
            acknowledged.append(Row(cause, acknowledgement=known))
        else:
            visible.append(cause)
    shown = choose(visible)
    examples = examples_of(subjects, shown)
    urls = {key: url for found in declared("incident_urls", request) for key, url in found(shown).items()}
    return Rows(
        subjects,
        [Row(cause, examples.get(cause.key), incident_url=urls.get(cause.key, "")) for cause in shown],
        sorted(acknowledged, key=lambda row: row.cause.title)[:MAX_ACKNOWLEDGED],
        others(subjects, visible, shown),
        request.user.has_perm(PERMISSION),
        timezone.now(),
    )


def examples_of(subjects: Iterable[AttentionSubject], causes: Sequence[Cause]) -> dict[str, Example]:
    """Return an example of each cause that has one, by the key of the cause."""
    found: dict[str, Example] = {}
    for subject in subjects:
        of_subject = {cause.key for cause in subject.causes}
        if mine := [cause for cause in causes if cause.key in of_subject]:
            found |= subject.examples(mine)
    return found


def hides(known: Acknowledgement, cause: Cause) -> bool:
    """Return whether an acknowledgement still applies to a cause."""
    if is_worse(cause, str(known.number), known.severe):
        return False
    newest = cause.newest or cause.since
    return newest is None or newest <= known.at


def order(cause: Cause) -> tuple[bool, float, str]:
    """Return the order of rows: severe ones first, then the newest."""
    return not cause.is_severe, -(cause.since or OLDEST).timestamp(), cause.key


def choose(causes: Iterable[Cause]) -> list[Cause]:
    """Return the causes that have a row: all, or if there are too many, the first of every kind before the second."""
    places, ranked = Counter[str](), []
    for cause in sorted(causes, key=order):
        ranked.append((places[cause.kind], cause))
        places[cause.kind] += 1
    if len(ranked) > MAX_ROWS:
        # The last row is for the others.
        ranked = sorted(ranked, key=lambda item: (item[0], order(item[1])))[: MAX_ROWS - 1]
    return sorted((cause for _, cause in ranked), key=order)


def others(
    subjects: Sequence[AttentionSubject], visible: Sequence[Cause], shown: Sequence[Cause]
) -> dict[tuple[str, str], int]:
    hidden = {cause.key for cause in visible} - {cause.key for cause in shown}
    causes = ((subject.name, cause) for subject in subjects for cause in subject.causes if cause.key in hidden)
    # The path without the query is the list of everything that the subject has.
    return dict(Counter((name, urlsplit(cause.url).path) for name, cause in causes))


@require_POST
@permission_required(PERMISSION, raise_exception=True)
def acknowledge(request: HttpRequest) -> HttpResponse:
    """Hide a cause, if it is not worse than the page that was posted showed it."""
    cause = find_cause(request)
    if cause is None:
        messages.info(request, "This problem has already ended.")
    elif is_worse(cause, request.POST.get("number", ""), request.POST.get("severe") == "1"):
        messages.warning(request, f"Not acknowledged, as it has changed: {cause.title}, {cause.counted}.")
    else:
        note = request.POST.get("note", "").strip()[:500]
        by = write(cause, request.user.get_username(), note)
        text = f"Acknowledged: {cause.title}." if by is None else f"{by} has already acknowledged it."
        messages.success(request, text)
    return leave(request)


def find_cause(request: HttpRequest) -> Cause | None:
    """Return the cause that was posted, of those that the user may view."""
    subjects: list[AttentionSubject] = declared("attention_subjects", request)
    key = request.POST.get("cause", "")
    return next((cause for subject in subjects for cause in subject.causes if cause.key == key), None)


def is_worse(cause: Cause, number: str, severe: bool) -> bool:
    """Return whether a cause is worse than the page that was posted showed it."""
    return not number.isdecimal() or cause.number > int(number) or (cause.is_severe and not severe)


def write(cause: Cause, user: str, note: str) -> str | None:
    """Acknowledge a cause; return who has already done so, if anyone."""
    values = {
        "title": cause.title[:300],
        "number": cause.number,
        "severe": cause.is_severe,
        "by": user,
        "at": timezone.now(),
        "note": note,
    }
    with transaction.atomic():
        rows = Acknowledgement.objects.select_for_update()
        row, is_new = rows.get_or_create(cause=cause.key, defaults=values)
        if not is_new:
            if hides(row, cause):
                return row.by
            for name, value in values.items():
                setattr(row, name, value)
            row.save()
        record([acted(row, f"Acknowledged. {note}".strip(), after=snapshot(row))])
    return None


@require_POST
@permission_required(PERMISSION, raise_exception=True)
def undo(request: HttpRequest) -> HttpResponse:
    """Show an acknowledged cause again."""
    cause = find_cause(request)
    with transaction.atomic():
        row = Acknowledgement.objects.select_for_update().filter(cause=cause.key).first() if cause else None
        if row is not None:
            record([acted(row, "Acknowledgement undone", before=snapshot(row))])
            row.delete()
    if cause and row:
        messages.success(request, f"Shown again: {cause.title}.")
    else:
        messages.info(request, "This problem has ended, or its acknowledgement was already undone.")
    return leave(request)


def leave(request: HttpRequest) -> HttpResponse:
    """Return to the page of the service that has the button."""
    back = request.POST.get("next", "")
    is_own = url_has_allowed_host_and_scheme(back, allowed_hosts=None)
    return HttpResponseRedirect(back if is_own else reverse("admin:index"))


def all_subjects() -> tuple[list[AttentionSubject], bool]:
    """Return every subject as it is now, without a user, and whether all problems are among them.

    A subject that cannot be read does not hide the others.
    """
    request: Any = HttpRequest()
    # May view every subject.
    request.user = SimpleNamespace(has_perm=lambda name: True, has_perms=lambda names: True)
    subjects, is_complete = [], True
    for function in declared_functions("attention_subjects"):
        try:
            subject = function(request)
        except Exception:
            logger.exception("A part of Needs attention cannot be read")
            is_complete = False
        else:
            subjects += [subject] if subject is not None else []
    return subjects, is_complete and all(len(subject.causes) < MAX_CAUSES for subject in subjects)


@periodic(seconds=60)
def prune_acknowledgements() -> None:
    """Delete the acknowledgements of causes that have ended."""
    found = list(Acknowledgement.objects.values_list("pk", "cause", "at"))
    if not found:
        return
    subjects, is_complete = all_subjects()
    if not is_complete:
        return
    current = {cause.key for subject in subjects for cause in subject.causes}
    ended = [(pk, at) for pk, key, at in found if key not in current]
    for pk, at in ended:
        # Unless it was acknowledged again in the meantime.
        Acknowledgement.objects.filter(pk=pk, at=at).delete()
