"""CSV exports of transactions, and of what was paid for gas. Times are in UTC, amounts are integers in wei."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, date, datetime, time
from typing import Any, NamedTuple

from django.db.models import QuerySet

from chain.networks import network_by_chain_id
from relayer_service.csv_export import EXPORT_BATCH, csv_lines
from relayers.models import Relayer, RelayerTag
from transactions.console import formatting
from transactions.models import Attempt, Lane, Transaction
from transactions.records.list_payloads import LARGE_COLUMNS
from transactions.records.reasons import RELAYER_COLUMNS, status_reason
from transactions.records.representation import optional_timestamp

# Rows of a report that one query reads.
GAS_BATCH = 5_000
GAS_COLUMNS = [
    *("day", "relayer_id", "network", "chain_id", "address", "requested_by", "kind"),
    *("transactions", "gas_used", "fee", "relayer_tags"),
]


CELLS: dict[str, Callable[[Transaction], object]] = {
    "id": lambda row: row.identifier,
    "status": lambda row: row.status,
    "status_reason": lambda row: status_reason(row, row.lane),
    "kind": lambda row: row.kind,
    "relayer_id": lambda row: row.relayer.identifier if row.relayer else None,
    "network": lambda row: formatting.network_name(row),
    "chain_id": lambda row: row.lane.chain_id,
    "from": lambda row: row.lane.address,
    "to": lambda row: row.to,
    "value": lambda row: row.value,
    "nonce": lambda row: row.nonce,
    "hash": lambda row: row.attempt.hash if row.attempt else None,
    "requested_by": lambda row: row.requested_by,
    "idempotency_key": lambda row: row.idempotency_key,
    "external_id": lambda row: row.external_id,
    "metadata": lambda row: json.dumps(row.metadata, ensure_ascii=False, sort_keys=True) if row.metadata else None,
    "created_at": lambda row: optional_timestamp(row.created_at),
    "valid_until": lambda row: optional_timestamp(row.valid_until),
    "sent_at": lambda row: optional_timestamp(row.sent_at),
    "mined_at": lambda row: optional_timestamp(row.mined_at),
    "finished_at": lambda row: optional_timestamp(row.finished_at),
    "block_number": lambda row: row.block_number,
    "succeeded": lambda row: None if row.succeeded is None else str(row.succeeded).lower(),
    "gas_used": lambda row: row.gas_used,
    "effective_gas_price": lambda row: row.effective_gas_price_text,
    "fee": lambda row: paid(row.gas_used, row.effective_gas_price_text),
    "contract_address": lambda row: row.contract_address,
    "relayer_tags": lambda row: " ".join(row.relayer.tags) if row.relayer else None,
}


def transaction_lines(rows: QuerySet[Transaction], limit: int | None = None) -> Iterator[str]:
    """Yield the lines of a CSV of transactions, the newest first, all or at most `limit`."""
    cells = ([cell(row) for cell in CELLS.values()] for row in newest(rows, limit))
    return csv_lines([*CELLS], cells)


def newest(rows: QuerySet[Transaction], limit: int | None = None) -> Iterator[Transaction]:
    """Yield rows in batches, each from where the last one ended, without a long-running query."""
    own = rows.select_related(None).defer(None).defer(*LARGE_COLUMNS)
    rest, exported = own.order_by("-sequence"), 0
    while batch := list(rest[: EXPORT_BATCH if limit is None else min(EXPORT_BATCH, limit - exported)]):
        relate(batch)
        yield from batch
        exported += len(batch)
        rest = own.filter(sequence__lt=batch[-1].pk).order_by("-sequence")


def relate(batch: Sequence[Transaction]) -> None:
    """Set what rows refer to, which many of them share: joined, it would be built again for each row."""
    lanes = Lane.objects.select_related("watch").in_bulk({row.lane_id for row in batch})
    relayers = (
        Relayer.objects.select_related("health")
        .only(*RELAYER_COLUMNS)
        .prefetch_related("tag_rows")
        .in_bulk({row.relayer_id for row in batch if row.relayer_id is not None})
    )
    keys = {key for row in batch for key in (row.mined_attempt_id, row.last_attempt_id) if key is not None}
    attempts = Attempt.objects.only("hash", "error", "purpose").in_bulk(keys)
    for row in batch:
        row.lane = lanes[row.lane_id]
        row.relayer = relayers.get(row.relayer_id)
        row.mined_attempt = attempts.get(row.mined_attempt_id)
        row.last_attempt = attempts.get(row.last_attempt_id)


class GasKey(NamedTuple):
    """What a line of the report of gas is about."""

    day: date
    relayer_id: str
    network: str
    chain_id: int
    address: str
    requested_by: str
    kind: str


@dataclass
class GasSpent:
    transactions: int = 0
    gas_used: int = 0
    fee: int = 0


def paid(gas_used: int | None, price: str) -> int | None:
    """Return what a receipt says was paid for gas; None without a receipt."""
    return None if gas_used is None or not price else gas_used * int(price)


def finished_between(first: date, last: date) -> QuerySet[Transaction]:
    """Return the transactions of all kinds that became final on these days."""
    start, end = datetime.combine(first, time.min, UTC), datetime.combine(last, time.max, UTC)
    return Transaction.objects.filter(finished_at__gte=start, finished_at__lte=end)


def gas_lines(rows: QuerySet[Transaction]) -> Iterator[str]:
    """Yield the lines of a CSV of what final transactions paid for gas, by day, relayer and requester.

    Summed here: not every database adds integers of 256 bits.
    """
    spent: dict[GasKey, GasSpent] = {}
    for key, gas_used, fee in receipts(rows):
        total = spent.setdefault(key, GasSpent())
        total.transactions += 1
        total.gas_used += gas_used
        total.fee += fee
    tags = tags_of({key.relayer_id for key in spent})
    cells = ([*key, *astuple(spent[key]), " ".join(tags[key.relayer_id])] for key in sorted(spent))
    return csv_lines(GAS_COLUMNS, cells)


def tags_of(relayer_ids: set[str]) -> dict[str, list[str]]:
    """Return the sorted tags of relayers by ID."""
    found: dict[str, list[str]] = defaultdict(list)
    rest = sorted(relayer_ids - {""})
    while batch := rest[:EXPORT_BATCH]:
        rows = RelayerTag.objects.filter(relayer__identifier__in=batch).order_by("name")
        for identifier, name in rows.values_list("relayer__identifier", "name"):
            found[identifier].append(name)
        rest = rest[EXPORT_BATCH:]
    return found


def receipts(rows: QuerySet[Transaction]) -> Iterator[tuple[GasKey, int, int]]:
    """Yield the gas and the fee of each receipt, read in batches along the index of `finished_at`."""
    names = ("relayer__identifier", "relayer__network", "lane__chain_id", "lane__address", "requested_by", "kind")
    values = rows.order_by("finished_at", "sequence")
    rest: Any = values
    columns = ("finished_at", "sequence", "gas_used", "effective_gas_price_text", *names)
    while batch := list(rest.values_list(*columns)[:GAS_BATCH]):
        for finished_at, _, gas_used, price, relayer, network, chain_id, address, requested_by, kind in batch:
            fee = paid(gas_used, price)
            if fee is not None:
                name = network or network_name(chain_id)
                day = finished_at.astimezone(UTC).date()
                yield GasKey(day, relayer or "", name, chain_id, address, requested_by, kind), gas_used, fee
        finished_at, key, *_ = batch[-1]
        rest = values.filter(finished_at__gte=finished_at).exclude(finished_at=finished_at, sequence__lte=key)


def network_name(chain_id: int) -> str:
    network = network_by_chain_id(chain_id)
    return network.name if network else f"chain {chain_id}"
