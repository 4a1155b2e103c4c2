"""Accepting without a lock, on PostgreSQL: one statement reads what a request depends on, another inserts its row.

The second one locks the lane and the limits, and inserts nothing if somebody else has a lock, or if something has
changed between the two: then the caller locks first and reads afterwards. A lane that was taken from its relayer, or a
limit that was added to, between the start of the second statement and its lock does not match either: at the isolation
level READ COMMITTED, PostgreSQL evaluates the conditions of a locked row again.
"""

import json
from typing import Any, NamedTuple

from django.db import connection

from relayer_service.database.inserting import SqlFragment
from relayers.models import Relayer
from spending.models import SpendingLimit
from transactions.limits.counters import COLUMNS as LIMIT_COLUMNS
from transactions.limits.counters import NewCharges
from transactions.limits.holders import Key
from transactions.records import queues
from transactions.requests import relayer_lookup
from transactions.requests.lane_locks import COLUMNS, QueuedLane, from_columns

# The limits that have a row, of the relayer and of the token.
LIMITS = f"""
(SELECT jsonb_agg(jsonb_build_array({", ".join(LIMIT_COLUMNS)})) FROM spending_spendinglimit
 WHERE policy_id = relayer.spending_id OR policy_id = (SELECT spending_id FROM tokens_accesstoken WHERE id = %s))
"""  # noqa: S608  # constants
# `xmin` is another one after each change of the relayer.
READ = f"""
SELECT relayer.xmin::text, {LIMITS}, {relayer_lookup.FIELDS},
  {", ".join(f"lane.{column}" for column in COLUMNS)}, statement_timestamp(), {queues.SIZES}
FROM {relayer_lookup.TABLES} LEFT JOIN transactions_lane AS lane ON lane.relayer_id = relayer.sequence
WHERE relayer.identifier = %s
"""  # noqa: S608  # constants
# Never waits for these locks, as what was read would be old by then. What was accepted must survive a crash of the
# server, so the commit waits for the disk.
SAME_RELAYER = """
lane AS (
  SELECT lane.id, set_config('synchronous_commit', 'on', true)
  FROM transactions_lane AS lane JOIN relayers_relayer AS relayer ON relayer.sequence = lane.relayer_id
  WHERE lane.id = %s AND relayer.sequence = %s AND relayer.xmin::text = %s
  FOR KEY SHARE OF lane SKIP LOCKED
)
"""
SAME_LIMITS = """
unchanged AS (
  SELECT counted.id FROM spending_spendinglimit AS counted
  JOIN unnest(%s::bigint[], %s::text[]) AS seen (id, hours) ON seen.id = counted.id
  WHERE counted.hours = seen.hours::jsonb
  FOR NO KEY UPDATE OF counted SKIP LOCKED
), allowed AS (SELECT id FROM lane WHERE (SELECT count(*) FROM unchanged) = %s)
"""
NO_LIMITS = "allowed AS (SELECT id FROM lane)"


class Snapshot(NamedTuple):
    """What a request depends on, as it was read without a lock."""

    relayer: Relayer
    version: str
    lane: QueuedLane | None
    token_spending: int | None
    limits: dict[Key, SpendingLimit]

    def condition(self, charges: NewCharges | None) -> SqlFragment:
        """Return the condition that relayer and limits are as they were read; it locks the lane and the limits."""
        assert self.lane is not None
        parameters = [self.lane.lane.pk, self.relayer.pk, self.version]
        if charges is None:
            return SqlFragment(f"{SAME_RELAYER}, {NO_LIMITS}", parameters)
        keys, hours = charges.seen()
        return SqlFragment(f"{SAME_RELAYER}, {SAME_LIMITS}", [*parameters, keys, hours, len(keys)])


def read(relayer_id: str, token_id: int | None, requester: str) -> Snapshot:
    """Read what a request depends on; raise `NotFound` if there is no such relayer."""
    with connection.cursor() as cursor:
        cursor.execute(READ, [token_id, token_id, *queues.size_parameters(requester), relayer_id])
        version, limits, *values = cursor.fetchone() or ("", None)
    of_relayer: list[Any] = values[: relayer_lookup.WIDTH]
    of_lane: list[Any] = values[relayer_lookup.WIDTH :]
    relayer, token_spending = relayer_lookup.from_columns(relayer_id, of_relayer or None)
    lane = from_columns(of_lane) if of_lane[0] is not None else None
    rows = [SpendingLimit.from_db(connection.alias, LIMIT_COLUMNS, each) for each in json.loads(limits or "[]")]
    return Snapshot(relayer, version, lane, token_spending, {(row.policy_id, row.name): row for row in rows})
