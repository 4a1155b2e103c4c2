"""CSV exports of transactions. Times are in UTC, amounts are integers in wei."""

import json
from collections.abc import Callable, Iterator, Sequence

from django.db.models import QuerySet

from chain.networks import network_by_chain_id
from relayer_service.csv_export import EXPORT_BATCH, csv_lines
from relayers.models import Relayer
from transactions.console import formatting
from transactions.models import Attempt, Lane, Transaction
from transactions.records.list_payloads import LARGE_COLUMNS
from transactions.records.reasons import RELAYER_COLUMNS, status_reason
from transactions.records.representation import optional_timestamp

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


def paid(gas_used: int | None, price: str) -> int | None:
    """Return what a receipt says was paid for gas; None without a receipt."""
    return None if gas_used is None or not price else gas_used * int(price)


def network_name(chain_id: int) -> str:
    network = network_by_chain_id(chain_id)
    return network.name if network else f"chain {chain_id}"
