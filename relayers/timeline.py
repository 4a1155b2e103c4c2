"""The time line of a relayer: what its history in the audit log says, a line for each change."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from relayer_service.audit.actors import ActorKind
from relayer_service.audit.models import AuditEntry
from relayers.models import Relayer

LINES_SHOWN = 15
# The words for a state that begins, and for one that ends.
STATES = {
    "system_disabled": ("Disabled", "Enabled again"),
    "paused": ("Paused", "Resumed"),
    "balance_is_low": ("Balance low", "Balance recovered"),
}


@dataclass(frozen=True)
class TimelineEntry:
    at: datetime
    what: str
    who: str
    why: str


def lines(relayer: Relayer) -> list[TimelineEntry]:
    """Return the newest lines, the last change first."""
    return [
        TimelineEntry(entry.at, ", ".join(_words(entry)), in_sentence(entry.who), entry.reason)
        for entry in AuditEntry.objects.for_row(relayer)[:LINES_SHOWN]
    ]


def in_sentence(text: str) -> str:
    return text[:1].lower() + text[1:]


def _words(entry: AuditEntry) -> Iterator[str]:
    if entry.action != AuditEntry.Action.CHANGED:
        yield entry.get_action_display()
        return
    for name, (begun, ended) in STATES.items():
        # A change of the account clears its balance; only a check finds that a balance has recovered.
        is_forgotten = name == "balance_is_low" and entry.actor_kind != ActorKind.HEALTH_CHECK
        if name in entry.changes and not is_forgotten:
            yield begun if entry.changes[name][1] else ended
    others = sorted(entry.changes.keys() - STATES)
    if others:
        yield f"Changed: {', '.join(others)}"
