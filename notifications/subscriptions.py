"""Which events a webhook receives: names of events, and groups such as `relayer.*` for all events of one kind.

They are stored as one text, separated by spaces: every database compares and indexes it.
"""

from collections.abc import Iterable

from django.core.exceptions import ValidationError

from notifications.events import NOTIFICATION_TEST, all_events

# The events of the relayers that use the webhook.
DEFAULT = "relayer.* transaction.*"
# Those of e-mail and Slack, which receive them of all relayers: without each status of each transaction.
FOR_PEOPLE = "relayer.* transaction.refused"
# Those of webhooks that were created before they could be chosen.
EVERYTHING = "notification.* relayer.* token.* transaction.*"
NONE_CHOSEN = "at least one event is required: to receive none, disable the webhook"


def group_of(event: str) -> str:
    return f"{event.partition('.')[0]}.*"


def is_chosen(chosen: str, event: str) -> bool:
    """Return whether an event is among the chosen ones; test events always are."""
    names = chosen.split()
    return event in names or group_of(event) in names or event == NOTIFICATION_TEST.name


def groups() -> list[str]:
    return sorted({group_of(name) for name in all_events()})


def to_text(names: Iterable[str]) -> str:
    """Return the text to store; raise `ValidationError` for an unknown event, and if there is none."""
    chosen = sorted(set(names))
    if not chosen:
        raise ValidationError({"events": NONE_CHOSEN})
    if not {*chosen} <= {*all_events(), *groups()}:
        # Without the value, which may be a secret sent by mistake.
        raise ValidationError({"events": f"must be names of events, or of: {', '.join(groups())}"})
    return " ".join(chosen)
