"""The list action that changes many relayers: a form, a preview, a job; and the button that undoes it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from django.contrib import admin
from django.core import signing
from django.core.exceptions import BadRequest, PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html, format_html_join

from chain.networks import networks
from relayer_service.console import confirmation
from relayer_service.console.base import ResourceAdmin
from relayer_service.console.confirmation import PendingAction, ReasonForm, Table
from relayer_service.console.jobs import announce, visible_kinds
from relayer_service.console.panels import Panel, object_view
from relayer_service.console.references import and_more, link
from relayer_service.jobs import running
from relayer_service.jobs.kinds import kind
from relayer_service.jobs.models import Job
from relayer_service.storage.selections import Selection
from relayers.console.audit import shown
from relayers.console.bulk_edit_form import LABELS, BulkEditForm
from relayers.jobs.bulk_edits import CHANGE, PREVIEWED, REQUIRED, RESERVE, BulkEdit, Group, preview
from relayers.jobs.undoing import EDIT, UndoneEdit, entries_of, undoable_job
from relayers.models import Relayer
from relayers.writes import RelayerWrite
from spending.console.currencies import find_on_network
from spending.console.formatting import audited_contracts
from spending.console.rule_fields import with_labels

APPLY, UNDO = "apply", "undo_relayer_edit"
SALT, MAX_PREVIEW_SECONDS = "relayers.bulk_edit", 60 * 60
OUTCOMES = ["refused", "changed", "unchanged"]
STOPS = "A relayer whose balance is not above its new reserve stops sending: its transactions wait for funds."
RESTORES = "Restores what this edit changed, where that is still the present value; all else is skipped."
MAX_NAMED = 3
MAX_GROUPS = 50
LINES = ("", '<div class="change">{}</div>')


class BulkEditAdmin(ResourceAdmin):
    @admin.action(description="Edit selected relayers", permissions=["change"])
    def edit_selected(self, request: HttpRequest, queryset: QuerySet[Relayer]) -> HttpResponse:
        pending = PendingAction.in_list(request, "edit_selected", queryset)
        if APPLY in request.POST:
            return self._start(request, pending)
        refused = [name for name, permission in REQUIRED.items() if not request.user.has_perm(permission)]
        form = BulkEditForm(request.POST if pending.is_confirmed else None, refused=refused)
        title = f"Edit {counted(len(pending.selection))}"
        if not form.is_valid():
            table = pending.first(self.get_queryset(request), {"Network": lambda relayer: relayer.network})
            return confirmation.ask(request, self, pending, title, [], table, form, button="Preview")
        texts, table, changed = previewed(pending.selection, BulkEdit(form.changes))
        texts += [STOPS] if form.changes.get(RESERVE) else []
        if not changed:
            return confirmation.ask(request, self, pending, title, texts, table, form, button="Preview")
        reason = form.cleaned_data["reason"]
        signed = signing.dumps({"changes": form.changes, "reason": reason}, salt=salt(request, pending))
        pending = replace(pending, hidden={**pending.hidden, APPLY: signed})
        texts.append(f"Reason: {reason}")
        button = f"Change {counted(changed)}"
        return confirmation.ask(request, self, pending, f"{title}: preview", texts, table, button=button)

    def _start(self, request: HttpRequest, pending: PendingAction) -> HttpResponse:
        """Start the job of the changes that a preview has signed."""
        try:
            edit = signing.loads(request.POST[APPLY], salt=salt(request, pending), max_age=MAX_PREVIEW_SECONDS)
        except signing.BadSignature:
            raise BadRequest("Preview the changes first.") from None
        changes, reason, user = edit["changes"], edit["reason"], request.user
        if not user.has_perms(kind(EDIT).permissions(changes)):
            raise PermissionDenied
        job = running.start(EDIT, pending.selection, user.get_username(), reason=reason, parameters=changes)
        announce(request, self, job)
        return pending.leave()


def salt(request: HttpRequest, pending: PendingAction) -> str:
    """Return what binds signed changes to the user and the relayers that were previewed."""
    return f"{SALT}:{request.user.pk}:{pending.selection}"


def counted(number: int) -> str:
    return kind(EDIT).counted(number)


def previewed(selection: Selection, prepare: Callable[[Relayer], RelayerWrite]) -> tuple[list[str], Table, int]:
    """Return what would happen, in words and as a table, and how many relayers would change."""
    groups, warnings = preview(selection, prepare)
    groups.sort(key=lambda group: OUTCOMES.index(group.outcome))
    refused, changed, others = (sum(len(each.rows) for each in groups if each.outcome == name) for name in OUTCOMES)
    texts = [f"Changes {counted(changed)}."]
    texts += [f"Refused: {counted(refused)}."] if refused else []
    texts += [f"Unchanged: {counted(others)}."] if others else []
    texts += [f"The preview is of the first {PREVIEWED:,}. The job checks each."] if len(selection) > PREVIEWED else []
    texts += [f"Note: {counted(number)}: {with_labels(text)}." for text, number in warnings]
    # Changes that differ by network alone may read alike.
    relayers: dict[tuple[str, ...], list[Relayer]] = {}
    for group in groups:
        relayers.setdefault(tuple(lines(group)), []).extend(group.rows)
    rows = [[names(each), format_html_join(*LINES, ((line,) for line in same))] for same, each in relayers.items()]
    return texts, Table(["Relayers", "Changes"], rows[:MAX_GROUPS], max(0, len(rows) - MAX_GROUPS)), changed


def names(relayers: list[Relayer]) -> str:
    links = format_html_join(", ", "{}", ([link(each)] for each in relayers[:MAX_NAMED]))
    rest = len(relayers) - MAX_NAMED
    return format_html("{} {}", links, and_more(rest)) if rest > 0 else links


def lines(group: Group) -> Iterator[str]:
    """Yield what happens to the relayers of a group, with the labels of the form."""
    network = networks().get(group.network)
    tokens = find_on_network(group.network, audited_contracts(group.changes))
    if group.outcome != "changed":
        yield f"Refused: {group.fault}" if group.fault else "Unchanged"
    for name, change in sorted(group.changes.items()):
        pair = [change] if isinstance(change, str) else [shown(network, tokens, name, value) for value in change]
        yield f"{LABELS.get(name, name)}: {' → '.join(pair)}"


class Undo(Panel):
    """The button that undoes a bulk edit, of all relayers on the page of its job or of one on that of an entry."""

    template = "admin/relayers/relayer/undo.html"
    views = ["undo"]

    def may_view(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm(CHANGE))

    def is_shown(self, obj: Any) -> bool:
        return undone(obj) is not None

    def context(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        return {"undo_url": self.url("undo", obj)}

    @object_view("view", asks_first=True)
    def undo(self, request: HttpRequest, obj: Any) -> HttpResponse:
        job, selection = undone(obj) or (None, Selection())
        assert job is not None
        pending = PendingAction(selection, request.method == "POST", self.url("change", obj))
        permissions = sorted({each for each in REQUIRED.values() if request.user.has_perm(each)})
        form = ReasonForm(request.POST if pending.is_confirmed else None, required=True)
        if form.is_valid():
            reason = f"Undoes job {job.pk}: {form.cleaned_data['reason']}"
            parameters = {"job": job.pk, "permissions": permissions}
            started = running.start(UNDO, selection, request.user.get_username(), reason=reason, parameters=parameters)
            if UNDO in visible_kinds(request):
                return HttpResponseRedirect(reverse("admin:relayer_service_job_change", args=[started.pk]))
            announce(request, self.admin, started)
            return pending.leave()
        entries = entries_of(job, selection.first(PREVIEWED))
        texts, table, _ = previewed(Selection.from_keys(entries), UndoneEdit(entries, permissions))
        title = f"Undo: {job}"
        return confirmation.ask(request, self.admin, pending, title, [RESTORES, *texts], table, form, button="Undo")


def undone(obj: Any) -> tuple[Job, Selection] | None:
    """Return the edit that a page of a job or an audit entry can undo, and its relayers; None if there is none."""
    if isinstance(obj, Job):
        job = undoable_job(obj.pk)
        return (job, Selection.parse(job.selection)) if job else None
    number = obj.request_id.removeprefix("job-")
    job = undoable_job(int(number)) if number.isascii() and number.isdecimal() and len(number) < 19 else None
    if job is None or not obj.object_pk.isdecimal():
        return None
    entries = entries_of(job, [int(obj.object_pk)])
    return (job, Selection.from_keys(entries)) if obj.pk in {each.pk for each in entries.values()} else None
