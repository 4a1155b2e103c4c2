"""The rows of limits, locked while they are added to, and the charges that they are the sums of."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import connection

from relayer_service.database.inserting import SqlFragment, insert
from relayer_service.database.updating import update_each
from spending import rules
from spending.models import SpendingLimit
from spending.rules import Limit
from transactions.limits.holders import Holder, Key, SpendingRefused, limit_verdict, limits_of, payload_of
from transactions.limits.windows import OPEN_HOUR, hour_of, used, with_amount
from transactions.models import Charge, Transaction

COLUMNS = ("id", "policy_id", "name", "hours")
# In one order for all writers, so that none waits for another in a circle.
READ = "SELECT id, policy_id, name, hours FROM spending_spendinglimit WHERE {} ORDER BY id"  # constants
# Parts of the statement that inserts a transaction: others wait for the locks.
CHARGE = """
counted AS (
  UPDATE spending_spendinglimit SET hours = changed.hours::jsonb
  FROM new, unnest(%s::bigint[], %s::text[]) AS changed (id, hours) WHERE spending_spendinglimit.id = changed.id
), charged AS (
  INSERT INTO transactions_charge (transaction_id, hour, limit_id, amount_text, reserved_text)
  SELECT new.sequence, %s::integer, charge.limit_id, charge.amount, charge.amount
  FROM new, unnest(%s::bigint[], %s::text[]) AS charge (limit_id, amount)
)
"""
SAME_KEY = "(policy_id = %s AND name = %s)"


class Counters:
    """Limits and what is counted on them. With `lock`, until the end of the transaction nobody else adds to them.

    `seen` are limits that were read without a lock: whoever writes them checks that they are still the same.
    """

    def __init__(
        self, keys: Collection[Key], now: datetime, *, lock: bool = True, seen: dict[Key, SpendingLimit] | None = None
    ) -> None:
        self.hour = hour_of(now)
        self._rows = _read(keys, lock=lock) if seen is None else {key: seen[key] for key in keys}
        if lock and (missing := sorted(set(keys) - self._rows.keys())):
            # A limit gets its row when something first counts on it.
            SpendingLimit.objects.bulk_create(
                [SpendingLimit(policy_id=policy, name=name) for policy, name in missing], ignore_conflicts=True
            )
            self._rows = _read(keys, lock=True)
        self._changed: set[Key] = set()

    def used(self, key: Key) -> int:
        row = self._rows.get(key)
        return used(row.hours, self.hour) if row else 0

    def counts(self, charge: Charge) -> int:
        """Return how much of the sum is due to a charge: nothing once it is too old."""
        return used({str(charge.hour): charge.amount_text}, self.hour)

    def add(self, key: Key, hour: int, amount: int) -> None:
        if (row := self._rows.get(key)) is None:
            row = self._rows[key] = SpendingLimit(policy_id=key[0], name=key[1])
        row.hours = with_amount(row.hours, self.hour, hour, amount)
        self._changed.add(key)

    def limit(self, key: Key) -> SpendingLimit:
        return self._rows[key]

    def save(self) -> None:
        update_each([self._rows[key] for key in sorted(self._changed)], ["hours"])
        self._changed.clear()


class NewCharges:
    """The charges of a transaction that is about to be inserted, on limits that have been added to."""

    def __init__(self, counters: Counters, amounts: Mapping[Key, int]) -> None:
        self._counters = counters
        self._limits = [counters.limit(key) for key in amounts]
        self._seen = [json.dumps(limit.hours) for limit in self._limits]
        for key, amount in amounts.items():
            counters.add(key, OPEN_HOUR, amount)
        self._texts = [str(amount) for amount in amounts.values()]

    def seen(self) -> tuple[list[int], list[str]]:
        """Return the keys of the limits, and what was counted on them before."""
        return [limit.pk for limit in self._limits], self._seen

    def as_part(self) -> SqlFragment:
        """Return what writes them with the transaction, in one PostgreSQL statement."""
        keys, hours = [limit.pk for limit in self._limits], [json.dumps(limit.hours) for limit in self._limits]
        return SqlFragment(CHARGE, [keys, hours, OPEN_HOUR, keys, self._texts])

    def save(self, row: Transaction) -> None:
        """Write them after the transaction."""
        self._counters.save()
        each: dict[str, Sequence[Any]] = {
            "limit": [limit.pk for limit in self._limits],
            "amount_text": self._texts,
            "reserved_text": self._texts,
        }
        insert(Charge, {"transaction": row.pk, "hour": OPEN_HOUR}, each)


def counted_limits(holders: Sequence[Holder], row: Transaction) -> dict[Key, tuple[Holder, Limit, int]]:
    """Return the limits that a row counts on, each with its holder and the amount."""
    if not holders:
        return {}
    amounts = rules.amounts(payload_of(row))
    return {
        holder.key(limit): (holder, limit, amounts[limit.name])
        for holder, limit in limits_of(holders)
        if limit.name in amounts
    }


def reserve(holders: Sequence[Holder], row: Transaction, now: datetime) -> NewCharges | None:
    """Lock the limits of a row, and return what it counts; raise `SpendingRefused` if it exceeds one.

    The row is inserted right after this, with its charges: others wait for the locks. Gas is reserved when its price
    is known: with the nonce.
    """
    counted = counted_limits(holders, row)
    return charge(counted, row, Counters(counted, now)) if counted else None


def charge(counted: Mapping[Key, tuple[Holder, Limit, int]], row: Transaction, counters: Counters) -> NewCharges:
    """Return what a row counts; raise `SpendingRefused` if it exceeds a limit."""
    for key, (holder, limit, amount) in counted.items():
        verdict = limit_verdict(limit, counters.used(key), amount)
        if not verdict.allowed:
            assert row.relayer_id is not None
            raise SpendingRefused(holder.name, verdict, row.relayer_id, payload_of(row))
    return NewCharges(counters, {key: amount for key, (_, _, amount) in counted.items()})


def _read(keys: Collection[Key], *, lock: bool) -> dict[Key, SpendingLimit]:
    """Return limits by policy and name. Written out, as compiling it with the ORM would slow accepting down."""
    if not keys:
        return {}
    statement = READ.format(" OR ".join([SAME_KEY] * len(keys)))
    if lock and connection.vendor == "postgresql":
        statement += " FOR NO KEY UPDATE"
    with connection.cursor() as cursor:
        cursor.execute(statement, [value for key in keys for value in key])
        found = cursor.fetchall()
    return {
        (policy, name): SpendingLimit.from_db(connection.alias, COLUMNS, [pk, policy, name, json.loads(hours)])
        for pk, policy, name, hours in found
    }
