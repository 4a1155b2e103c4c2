"""Changes of many relayers: nodes, webhook, minimum balance and reserve, by the rules of a single change.

The changes are those of a job: `custom_rpc_urls` is a list of nodes, `notification` a primary key or None, and
`min_balance` and `reserve` a text, such as `0.5 ETH`, or empty. What is left out stays as it is.
"""

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Count, Min, QuerySet

from chain.networks import networks
from notifications.models import Notification
from relayer_service.storage.selections import Selection
from relayer_service.writes import Values
from relayers.health.probes import ProbeCache
from relayers.models import Relayer
from relayers.policy_fields import FORM_FIELDS, RESERVE_FORM_FIELD
from relayers.writes import UNKNOWN, RelayerWrite

Changes = Mapping[str, Any]
NODES, WEBHOOK, MINIMUM, RESERVE = "custom_rpc_urls", "notification", "min_balance", "reserve"
AMOUNT_FIELDS = {MINIMUM: FORM_FIELDS[MINIMUM], RESERVE: RESERVE_FORM_FIELD}
GROUP_BATCH = 10_000


@dataclass(frozen=True)
class Group:
    """Selected relayers on one network: whether they can be changed is the same for all of them."""

    network: str
    count: int
    fault: str
    warning: str


def edited_rows() -> QuerySet[Relayer]:
    return Relayer.objects.select_related("signer", "notification", "spending", "funding_relayer", "health")


def edit(relayer: Relayer, changes: Changes, answers: ProbeCache, reason: str) -> bool:
    """Change a relayer; return whether anything is different. Raise `ValidationError` if a rule is violated."""
    # Calls the nodes, before the transaction: waiting inside it would block others.
    prepare(relayer, changes, answers)
    with transaction.atomic():
        row = edited_rows().select_for_update(of=("self",)).filter(pk=relayer.pk).first()
        if row is None:
            return False
        write = prepare(row, changes, answers)
        write.lock()
        write.save(reason)
    return bool(write.fields)


def prepare(relayer: Relayer, changes: Changes, answers: ProbeCache) -> RelayerWrite:
    write = RelayerWrite(relayer)
    write.answers = answers
    write.change(values(relayer, changes))
    return write


def values(relayer: Relayer, changes: Changes) -> Values:
    """Return the changes of one relayer by API name."""
    found: dict[str, Any] = {}
    if NODES in changes:
        found[NODES] = changes[NODES]
    if WEBHOOK in changes:
        found["notification_id"] = webhook(changes[WEBHOOK])
    if MINIMUM in changes:
        limit = typed_amount(relayer, MINIMUM, changes[MINIMUM])
        others = {name: value for name, value in relayer.policies.items() if name != MINIMUM}
        found["policies"] = others if limit is None else {**others, MINIMUM: limit}
    if RESERVE in changes:
        found[RESERVE] = typed_amount(relayer, RESERVE, changes[RESERVE])
    return found


def webhook(key: int | None) -> Notification | None:
    if key is None:
        return None
    found = Notification.objects.filter(pk=key).first()
    if found is None:
        raise ValidationError({"notification_id": UNKNOWN})
    return found


def typed_amount(relayer: Relayer, name: str, text: str) -> int | None:
    """Return an amount in wei; the coin in the text must be the coin of the relayer's network."""
    field: Any = copy(AMOUNT_FIELDS[name])
    field.show_in(networks().get(relayer.network), None)
    found: int | None = field.clean(text)
    return found


def groups(selection: Selection, changes: Changes, answers: ProbeCache) -> Iterator[Group]:
    """Yield the selected relayers by network, each with what the first of them shows; this calls the new nodes."""
    found: dict[tuple[str, int | None], tuple[int, int]] = {}
    for condition in selection.conditions(GROUP_BATCH):
        rows = Relayer.objects.filter(condition).order_by().values_list("network", "chain_id")
        for network, chain_id, count, first in rows.annotate(count=Count("pk"), first=Min("pk")):
            before, earliest = found.get((network, chain_id), (0, first))
            found[network, chain_id] = before + count, min(earliest, first)
    for (network, _), (count, first) in sorted(found.items(), key=lambda item: item[0][0]):
        relayer = edited_rows().get(pk=first)
        try:
            write = prepare(relayer, changes, answers)
        except ValidationError as error:
            yield Group(network, count, "; ".join(error.messages), "")
        else:
            # One about the reserve depends on each relayer.
            warnings = dict.fromkeys(text for path, text in write.warnings if path != RESERVE)
            yield Group(network, count, "", "; ".join(warnings))
