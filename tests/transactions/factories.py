"""Lanes and transactions with fixed values, in the database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from relayers.models import Relayer
from transactions.models import FINAL, UNSUCCESSFUL, Attempt, Lane, Transaction

SIGNED_AT = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
VALID_UNTIL = datetime(2100, 1, 1, tzinfo=UTC)
# Of the tokens whose transactions these are.
FAMILY = "payments"
RECEIVER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"


def lane(relayer: Relayer, **changes: Any) -> Lane:
    """Create the lane of a relayer, with no nonce used."""
    values = {
        "chain_id": relayer.expected_chain_id,
        "address": relayer.address,
        "relayer": relayer,
        "first_nonce": 0,
        "next_nonce": 0,
    }
    created: Lane = Lane.objects.create(**(values | changes))
    return created


def transaction(lane: Lane, **changes: Any) -> Transaction:
    """Create a pending transaction of a lane."""
    values = {"relayer": lane.relayer, "lane": lane, "epoch": lane.epoch, "to": RECEIVER, "valid_until": VALID_UNTIL}
    values["requester"] = FAMILY
    if changes.get("status") in FINAL:
        values |= final(changes["status"])
    return Transaction.objects.create(**(values | changes))


def final(status: str) -> dict[str, Any]:
    """Return the columns of a final status."""
    return {
        "status": status,
        "finished_at": SIGNED_AT,
        "unsuccessful": status if status in UNSUCCESSFUL else None,
    }


def attempt(row: Transaction, **changes: Any) -> Attempt:
    """Create a signed attempt of a transaction that has a nonce, and make it its newest."""
    number = row.attempts.count() + 1
    values = {
        "transaction": row,
        "number": number,
        "purpose": Attempt.Purpose.SEND if number == 1 else Attempt.Purpose.BUMP,
        "lane": row.lane,
        "epoch": row.epoch,
        "nonce": row.nonce,
        "hash": f"0x{row.pk:032x}{number:032x}",
        "raw": b"",
        "gas_limit": 21_000,
        "signed_at": SIGNED_AT,
    }
    created = Attempt.objects.create(**(values | changes))
    row.last_attempt = created
    row.save(update_fields=["last_attempt"])
    return created
