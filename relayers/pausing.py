"""Pausing and resuming relayers, one or many, with their events."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from django.db import transaction

from notifications.delivery.creating import Emission, Webhook, create_each
from notifications.emitting import emit, wake
from relayer_service.audit import actors
from relayer_service.audit.recording import record_same
from relayer_service.observability import tracing
from relayer_service.storage.selections import Selection
from relayers import guards
from relayers.events import RELAYER_PAUSED, RELAYER_RESUMED, RELAYER_TOP_UP_REMOVED, RelayerChangeData, RelayerData
from relayers.models import Relayer

# Relayers that are locked and written together: few enough that others do not wait long for the locks.
BATCH_SIZE = 2_000
# Events of one batch that each channel for people receives.
MAX_PER_CHANNEL = 20
ACCOUNT_CHANGED = "The account or the signer changed."
EVENT_COLUMNS = ["identifier", "name", "network", "network_type"]

# Returns which relayers to leave as they are, given the keys of locked ones in ascending order.
Excluded = Callable[[Sequence[int]], set[int]]


def event_data(relayer: Relayer) -> RelayerData:
    return _data(relayer.identifier, relayer.name, relayer.network, relayer.network_type)


def set_all_paused(selection: Selection, paused: bool, reason: str = "", excluded: Excluded | None = None) -> int:
    """Pause or resume relayers, emit the events and record the reason; return how many changed.

    Each batch is a transaction: a relayer is never paused without its event and its audit entry, and the batches
    before a failure stay.
    """
    done, targets = 0, set[int]()
    for batch in selection.batches(BATCH_SIZE):
        with transaction.atomic():
            written, woken = _write(batch, paused, reason, excluded)
            record_same(Relayer, written, {"paused": not paused}, {"paused": paused}, reason)
        done += len(written)
        targets |= woken
    wake(targets)
    return done


def write_paused(relayers: Iterable[Relayer], paused: bool) -> None:
    """Pause or resume relayers and emit the events, for callers that record the changes themselves."""
    chosen = {relayer.pk: relayer for relayer in relayers}
    if not chosen:
        return
    with transaction.atomic():
        for batch in Selection.from_keys(chosen).batches(BATCH_SIZE):
            wake(_write(batch, paused)[1])
    for relayer in chosen.values():
        relayer.paused = paused


def _write(
    keys: Sequence[int], paused: bool, reason: str = "", excluded: Excluded | None = None
) -> tuple[list[tuple[int, str]], set[int]]:
    """Write the relayers that change and emit their events; return their keys and IDs, and the webhooks to wake."""
    # In the order in which others lock them, and all of them: what another transaction is about to change is read
    # after its commit. Tuples: model instances would take longer than everything else.
    locked = Relayer.objects.filter(pk__in=keys).select_for_update(of=("self",)).order_by("pk")
    webhook = ("notification", "notification__enabled", "notification__events")
    rows = [row[:-1] for row in locked.values_list("pk", *webhook, *EVENT_COLUMNS, "paused") if row[-1] is not paused]
    if excluded:
        left = excluded([row[0] for row in rows])
        rows = [row for row in rows if row[0] not in left]
    changed = [row[0] for row in rows]
    Relayer.objects.filter(pk__in=changed).update(paused=paused)
    guards.note_change(changed, {"paused"})
    trace = tracing.traceparent.get()
    actor = str(actors.current())

    def data(*columns: str) -> RelayerChangeData:
        return RelayerChangeData(**_data(*columns), actor=actor, reason=reason)

    event = RELAYER_PAUSED if paused else RELAYER_RESUMED
    webhooks = [None if row[1] is None else Webhook(*row[1:4]) for row in rows]
    emissions = [
        Emission(event, webhook, partial(data, *row[4:]), trace) for row, webhook in zip(rows, webhooks, strict=True)
    ]
    return [(row[0], row[4]) for row in rows], create_each(emissions, MAX_PER_CHANNEL)


def report_removed_top_ups(relayers: Iterable[Relayer]) -> None:
    for relayer in relayers:
        data = RelayerChangeData(**event_data(relayer), actor=str(actors.current()), reason=ACCOUNT_CHANGED)
        emit(RELAYER_TOP_UP_REMOVED, relayer.notification, data)


def _data(identifier: str, name: str, network: str, network_type: str) -> RelayerData:
    return RelayerData(relayer_id=identifier, name=name, network=network, network_type=network_type)
