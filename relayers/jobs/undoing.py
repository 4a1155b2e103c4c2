"""Undoing a bulk edit: its audit entries have the former values, which return where nothing changed since."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError

from notifications.models import Notification
from relayer_service.audit.models import AuditEntry, type_of
from relayer_service.audit.recording import snapshot
from relayer_service.audit.values import is_empty, is_truncated, plain
from relayer_service.jobs.models import Job
from relayer_service.writes import Values
from relayers.jobs.bulk_edits import FUND, RESERVE, RULES, SIGNING, TAGS, TOP_UP, VIEW_WEBHOOKS, find
from relayers.models import ACCOUNT_COLUMNS, Relayer
from relayers.writes import RelayerWrite
from spending.writes import NO_ENTRIES, stored_rules

EDIT = "edit_relayers"
CHANGED_SINCE = "changed since: {}"
NOT_KEPT = "the audit log does not have the former value of: {}"
NOT_PERMITTED = "requires the permission {}"
WEBHOOK_ID = "notification_id"
UNDOABLE = {"policies", RULES, RESERVE, TOP_UP, SIGNING, TAGS, WEBHOOK_ID}
NEEDED = {TOP_UP: FUND, WEBHOOK_ID: VIEW_WEBHOOKS}


def entries_of(job: Job, relayers: Collection[int]) -> dict[int, AuditEntry]:
    """Return what a finished edit changed last, by relayer. No request has an ID like that of a job."""
    rows = AuditEntry.objects.filter(object_type=type_of(Relayer), object_pk__in=[str(key) for key in relayers])
    rows = rows.filter(request_id=f"job-{job.pk}", action=AuditEntry.Action.CHANGED)
    return {int(entry.object_pk): entry for entry in rows.order_by("pk")}


def undoable_job(key: int) -> Job | None:
    return Job.objects.filter(pk=key, kind=EDIT, token_key="", finished_at__isnull=False).first()


@dataclass(frozen=True)
class UndoneEdit:
    """The audit entries of an edit, by relayer, and the permissions of who undoes it besides that to change them."""

    entries: Mapping[int, AuditEntry]
    permissions: Collection[str]

    def __call__(self, relayer: Relayer) -> RelayerWrite:
        """Return the write that restores a relayer; raise `ValidationError` if that is refused."""
        write, entry = RelayerWrite(relayer), self.entries[relayer.pk]
        if any(name.startswith(TOP_UP) for name in entry.changes) and has_moved(relayer, entry):
            raise ValidationError(CHANGED_SINCE.format("the account or the signer"))
        write.change(self.values(relayer, entry.changes))
        return write

    def values(self, relayer: Relayer, changes: Mapping[str, Any]) -> Values:
        fields = {name.partition(".")[0] for name in changes}
        for name in sorted(fields):
            if NEEDED.get(name, "") not in {"", *self.permissions}:
                raise ValidationError(NOT_PERMITTED.format(NEEDED[name]))
        lost = [name for name, change in changes.items() if not is_kept(name, change)]
        now = snapshot(relayer)
        kept = {name: change for name, change in changes.items() if name not in lost}
        changed = [name for name, (_, new) in kept.items() if not is_same(now.get(name), new)]
        for text, names in ((NOT_KEPT, lost), (CHANGED_SINCE, changed)):
            if names:
                raise ValidationError(text.format(", ".join(sorted(names))))
        former = {name: old for name, (old, _) in changes.items()}
        found = {name: former.get(name) for name in fields & {RESERVE, SIGNING, TAGS}}
        if "policies" in fields:
            found["policies"] = merged(relayer.policies, former, "policies.")
        if RULES in fields:
            found[RULES] = merged(stored_rules(relayer), former, f"{RULES}.")
        if TOP_UP in fields:
            values = merged(relayer.top_up_values(), former, f"{TOP_UP}.")
            funding = find(Relayer, {"identifier": values.get("funding_relayer_id")}, "top_up.funding_relayer_id")
            found[TOP_UP] = {**values, "funding_relayer_id": funding} if values else None
        if WEBHOOK_ID in fields:
            found[WEBHOOK_ID] = find(Notification, {"identifier": former[WEBHOOK_ID]}, WEBHOOK_ID)
        return found


def has_moved(relayer: Relayer, entry: AuditEntry) -> bool:
    """Return whether somebody else may hold the key by now, who must not be sent coins."""
    later = AuditEntry.objects.for_row(relayer).filter(at__gte=entry.at, pk__gt=entry.pk)
    return later.filter(changes__has_any_keys=[*ACCOUNT_COLUMNS, "signer_id"]).exists()


def is_kept(name: str, change: Any) -> bool:
    """Return whether an entry has the former value: not that of nodes, which are secret, and of long lists."""
    is_pair = isinstance(change, list) and not any(is_truncated(value) for value in change)
    return is_pair and name.partition(".")[0] in UNDOABLE


def is_same(now: Any, recorded: Any) -> bool:
    return plain(now) == recorded or (is_empty(now) and is_empty(recorded))


def merged(stored: Mapping[str, Any], former: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return an object with its former members: those that had no value are removed."""
    own = {name.removeprefix(prefix): value for name, value in former.items() if name.startswith(prefix)}
    members = {name: [] if value == NO_ENTRIES else value for name, value in own.items()}
    return {name: value for name, value in {**stored, **members}.items() if value is not None}
