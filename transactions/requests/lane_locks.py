"""The lane that a relayer's transactions are accepted on, locked so that its relayer cannot change."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import QuerySet

from relayer_service.api.error_codes import ErrorCode
from relayer_service.api.exceptions import Conflict
from relayer_service.database.access import require_durability
from relayer_service.database.clock import DatabaseNow
from relayer_service.database.nul import has_nul
from relayers.models import Relayer
from transactions.models import IS_OPEN, Lane, Transaction
from transactions.records import queues
from transactions.records.queues import Queue
from transactions.requests import relayer_lookup
from transactions.requests.relayer_lookup import read_relayer

# What is read of a lane: enough to accept a transaction and to answer why it is not further.
COLUMNS = (
    "id", "chain_id", "address", "relayer_id", "epoch", "holds", "waiting", "waiting_since", "waiting_details",
    "generation",
)  # fmt: skip
HOLDS = COLUMNS.index("holds")
# A lock that callers share, and that conflicts with a change of the relayer alone: the engine's updates of a lane
# leave its keys as they are. What was accepted must survive a crash of the server, so the commit waits for the disk.
KEY_SHARE = """
SELECT set_config('synchronous_commit', 'on', true), {columns}, statement_timestamp(), {sizes}
FROM transactions_lane AS lane
WHERE relayer_id = (SELECT sequence FROM relayers_relayer WHERE identifier = %s)
FOR KEY SHARE OF lane
""".format(columns=", ".join(f"lane.{column}" for column in COLUMNS), sizes=queues.SIZES)  # noqa: S608  # constants
TAKEN = "Another relayer sends with this account on this chain: use that one, or choose another signer"


class QueuedLane(NamedTuple):
    lane: Lane
    # The database's time when it was read.
    now: datetime
    queue: Queue


def lock_lane_and_read_relayer(
    relayer_id: str, token_id: int | None, requester: str
) -> tuple[QueuedLane | None, Relayer, int | None]:
    """Lock the lane of a relayer, None if it has none yet; read the relayer and the token's policy afterwards.

    SQLite has one writer at a time, and needs no lock. PostgreSQL gets both statements in one round trip.
    """
    if has_nul(relayer_id):
        return None, *read_relayer(relayer_id)
    if connection.vendor != "postgresql":
        found = _first(Lane.objects.filter(relayer__identifier=relayer_id), requester)
        return found, *read_relayer(relayer_id, token_id)
    with connection.connection.pipeline(), connection.cursor() as lanes, connection.cursor() as relayers:
        lanes.execute(KEY_SHARE, [*queues.size_parameters(requester), relayer_id])
        relayers.execute(relayer_lookup.STATEMENT, [token_id, relayer_id])
        lane, relayer = lanes.fetchone(), relayers.fetchone()
    return from_columns(lane[1:]) if lane else None, *relayer_lookup.from_columns(relayer_id, relayer)


def from_columns(found: Sequence[Any]) -> QueuedLane:
    """Return a lane from the values of `COLUMNS`, the time and the sizes of the queue."""
    *values, now, (queued, own) = found
    values[HOLDS] = json.loads(values[HOLDS])
    lane = Lane.from_db(connection.alias, COLUMNS, values)
    # The first answer does not say whether the chain has halted, as that would take another query.
    lane.watch = None
    return QueuedLane(lane, now, Queue(queued, own, queued))


def claim_lane(relayer: Relayer, chain_id: int, address: str, requester: str = "") -> QueuedLane:
    """Return the lane of an account for a relayer whose row is locked; create it if there is none.

    A lane outlives its relayer, with the nonces of its account: the next relayer of the account continues it.
    """
    # As in `KEY_SHARE`.
    require_durability()
    for former in Lane.objects.select_for_update().filter(relayer=relayer):
        if (former.chain_id, former.address) != (chain_id, address):
            _leave(former)
    # Does nothing if the account has a lane.
    Lane.objects.bulk_create([Lane(chain_id=chain_id, address=address, relayer=relayer)], ignore_conflicts=True)
    lanes = Lane.objects.select_for_update(of=("self",)).filter(chain_id=chain_id, address=address)
    found = _first(lanes, requester)
    assert found is not None
    lane = found.lane
    if lane.relayer_id is None:
        lane.relayer = relayer
        lane.save(update_fields=["relayer"])
    elif lane.relayer_id != relayer.pk:
        raise Conflict(TAKEN, ErrorCode.ACCOUNT_TAKEN)
    return found


def _leave(lane: Lane) -> None:
    if Transaction.objects.filter(IS_OPEN, lane=lane).exists():
        raise Conflict("The former account of this relayer has transactions that are not final")
    lane.relayer = None
    lane.save(update_fields=["relayer"])


def _first(lanes: QuerySet[Any], requester: str) -> QueuedLane | None:
    timed = lanes.annotate(now=DatabaseNow())
    return next((QueuedLane(lane, lane.now, queues.count(lane, requester)) for lane in timed), None)
