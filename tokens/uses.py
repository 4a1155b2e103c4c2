"""What tokens were used for: requests by address, which add up in memory and are written once a minute."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from relayer_service.api.error_codes import ErrorCode
from relayer_service.background.counts import PendingCounts
from tokens.models import TokenUse

WRITE_SECONDS = 60
# Of one token; all others count as one, so that whoever has a token cannot fill the table.
MAX_ADDRESSES = 100
OTHERS = ""
KEPT = timedelta(days=90)
# The columns that count, after those of time.
COUNTS = ("requests", "forbidden", "refused", "rejected")
WRITE = """
INSERT INTO tokens_tokenuse AS stored (token_id, address, first_at, last_at, {columns}) VALUES {rows}
ON CONFLICT (token_id, address) DO UPDATE SET {added},
  last_at = CASE WHEN excluded.last_at > stored.last_at THEN excluded.last_at ELSE stored.last_at END
"""
COLUMNS = {
    "columns": ", ".join(COUNTS),
    "added": ", ".join(f"{name} = stored.{name} + excluded.{name}" for name in COUNTS),
}
ROW = f"({', '.join(['%s'] * (4 + len(COUNTS)))})"


@dataclass(slots=True)
class Tally:
    """The requests from one address."""

    first_at: datetime
    last_at: datetime
    counts: list[int]


@dataclass(slots=True)
class Uses:
    """The requests with one token, by address."""

    by_address: dict[str, Tally] = field(default_factory=dict)

    def add(self, newer: Uses, stored: Collection[str] = ()) -> None:
        """Add others; addresses beyond the maximum, with those that are stored, count as one."""
        for address, tally in newer.by_address.items():
            is_known = address in self.by_address or address in stored
            place = address if is_known or len({*self.by_address, *stored}) < MAX_ADDRESSES else OTHERS
            if (own := self.by_address.get(place)) is None:
                self.by_address[place] = Tally(tally.first_at, tally.last_at, [*tally.counts])
            else:
                own.first_at, own.last_at = min(own.first_at, tally.first_at), max(own.last_at, tally.last_at)
                own.counts = [count + more for count, more in zip(own.counts, tally.counts, strict=True)]


# A token and the minute of the requests.
Key = tuple[int, int]


def count(token_id: int, address: str, status: int, code: str) -> None:
    """Count a request with a genuine token by its response."""
    now, is_forbidden = timezone.now(), status == HTTPStatus.FORBIDDEN
    is_refused = is_forbidden and code == ErrorCode.SPENDING_REFUSED
    counts = [1, is_forbidden and not is_refused, is_refused, status == HTTPStatus.UNAUTHORIZED]
    key = token_id, int(now.timestamp()) // WRITE_SECONDS
    pending.add(key, Uses({address: Tally(now, now, [int(each) for each in counts])}))


def write(rows: Sequence[tuple[Key, Uses]]) -> None:
    """Add to the stored counts, in a statement per token."""
    totals: dict[int, Uses] = defaultdict(Uses)
    stored: dict[int, set[str]] = defaultdict(set)
    keys = {token_id for (token_id, _), _ in rows}
    for token_id, address in TokenUse.objects.filter(token__in=keys).values_list("token", "address"):
        stored[token_id].add(address)
    for (token_id, _), uses in rows:
        totals[token_id].add(uses, stored[token_id])
    with transaction.atomic(), connection.cursor() as cursor:
        # Processes add to the same rows: the same order prevents deadlocks.
        for token_id in sorted(totals):
            cursor.execute(*statement(token_id, totals[token_id]))


def statement(token_id: int, uses: Uses) -> tuple[str, list[Any]]:
    adapt, values = connection.ops.adapt_datetimefield_value, list[Any]()
    for address, tally in sorted(uses.by_address.items()):
        values += [token_id, address, adapt(tally.first_at), adapt(tally.last_at), *tally.counts]
    return WRITE.format(**COLUMNS, rows=", ".join([ROW] * len(uses.by_address))), values


pending: PendingCounts[Key, Uses] = PendingCounts("uses of tokens", write, seconds=WRITE_SECONDS)
flush = pending.flush
