"""A transaction as API responses and webhooks show it."""

from datetime import datetime
from typing import Any, TypedDict

import rlp

from chain.messages import signature_data
from chain.transactions.decoding import RLP_LIST
from chain.transactions.model import CHAIN_V, PLAIN_V
from relayer_service.database.clock import timestamp
from relayer_service.evm import checksummed
from transactions.models import Attempt, Status, Transaction
from transactions.records.signed_payloads import is_superseded, signed_payload

# A functional declaration, as `from` is a keyword.
TransactionData = TypedDict(
    "TransactionData",
    {
        "id": str,
        "relayer_id": str,
        "status": str,
        "status_reason": str | None,
        "version": int,
        "hash": str | None,
        "nonce": int | None,
        "from": str,
        "to": str | None,
        "value": str,
        "data": str | None,
        "data_size": int,
        "gas_limit": int | None,
        "gas_price": str | None,
        "max_fee_per_gas": str | None,
        "max_priority_fee_per_gas": str | None,
        "speed": str | None,
        "signature": dict[str, Any] | None,
        "is_canceled": bool,
        "created_at": str,
        "sent_at": str | None,
        "confirmed_at": str | None,
        "valid_until": str,
        "block_number": int | None,
        "gas_used": int | None,
        "effective_gas_price": str | None,
        "contract_address": str | None,
        "external_id": str | None,
        "metadata": dict[str, str],
    },
)


def transaction_data(row: Transaction, status_reason: str, relayer_id: str, address: str) -> TransactionData:
    """Return a transaction with its current attempt; the rows of its attempts must be loaded."""
    attempt = row.attempt
    prices = attempt or row
    mined = row.mined_attempt
    # What was mined, if a replacement came too late.
    older = signed_payload(mined) if mined is not None and is_superseded(row, mined) else {}
    payload = older or {"to": row.to, "value_text": row.value_text, "data": row.data}
    return {
        "id": row.identifier,
        "relayer_id": relayer_id,
        "status": row.status,
        "status_reason": status_reason or None,
        "version": row.version,
        "hash": attempt.hash if attempt else None,
        "nonce": row.nonce,
        "from": checksummed(address),
        "to": payload["to"] or None,
        "value": payload["value_text"],
        "data": f"0x{bytes(payload['data']).hex()}" if payload["data"] else None,
        "data_size": len(payload["data"]),
        "gas_limit": attempt.gas_limit if attempt else row.requested_gas_limit,
        "gas_price": prices.gas_price_text or None,
        "max_fee_per_gas": prices.max_fee_text or None,
        "max_priority_fee_per_gas": prices.max_priority_fee_text or None,
        "speed": row.speed or None,
        "signature": signature(attempt) if attempt and attempt.raw else None,
        "is_canceled": row.requested_action == Transaction.Action.CANCEL or row.status == Status.CANCELED,
        "created_at": timestamp(row.created_at),
        "sent_at": optional_timestamp(row.sent_at),
        "confirmed_at": optional_timestamp(row.finished_at) if row.status == Status.CONFIRMED else None,
        "valid_until": timestamp(row.valid_until),
        "block_number": row.block_number,
        "gas_used": row.gas_used,
        "effective_gas_price": row.effective_gas_price_text or None,
        "contract_address": row.contract_address or None,
        "external_id": row.external_id,
        # Not every database keeps the order of keys.
        "metadata": dict(sorted((row.metadata or {}).items())),
    }


def optional_timestamp(moment: datetime | None) -> str | None:
    return timestamp(moment) if moment else None


def signature(attempt: Attempt) -> dict[str, Any]:
    """Return the signature of an attempt: `r`, `s` and `sig` in hexadecimal without 0x, and `v`, 27 or 28."""
    raw = bytes(attempt.raw)
    is_legacy = raw[0] >= RLP_LIST
    sent_v, r, s = (int.from_bytes(item) for item in rlp.decode(raw if is_legacy else raw[1:])[-3:])
    parity = (sent_v - (CHAIN_V if sent_v >= CHAIN_V else PLAIN_V)) % 2 if is_legacy else sent_v
    return signature_data(r, s, parity)
