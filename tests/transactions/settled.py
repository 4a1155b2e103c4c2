"""Lanes on a real chain whose rows and attempts are written directly, with signed bytes."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chain.networks import networks
from relayer_service.database.clock import database_now
from tests.relayers import factories
from tests.relayers.factories import ADDRESS, KEY
from tests.transactions.hardhat import RECEIVER, LocalChain, hash_of, signed
from transactions.models import Attempt, Lane, Status, Transaction
from transactions.settlement import watching
from transactions.settlement.watching import PollResult

# Blocks that are mined on demand: confirmed with the second, final below three others.
NETWORK = replace(networks()["hardhat"], confirmations=2, finality_depth=3)
HOUR = timedelta(hours=1)


def lane(chain: LocalChain, **changes: Any) -> Lane:
    """Create a lane that this process holds, which begins with nonce 0."""
    if "relayer" not in changes:
        nodes = [{"url": chain.url, "weight": 100}]
        changes["relayer"] = factories.relayer(network="hardhat", rpc_urls=nodes)
    values = {
        "chain_id": 31337,
        "address": ADDRESS,
        "lease": uuid.uuid4(),
        "due_at": database_now() + HOUR,
        "first_nonce": 0,
        "next_nonce": 0,
    } | changes
    created: Lane = Lane.objects.create(**values)
    return created


def request(lane: Lane, **changes: Any) -> Transaction:
    """Create a pending request: a transfer of 1 wei."""
    values = {
        "identifier": str(uuid.uuid4()),
        "relayer": lane.relayer,
        "lane": lane,
        "epoch": lane.epoch,
        "to": RECEIVER,
        "value_text": "1",
        "valid_until": database_now() + HOUR,
    } | changes
    return Transaction.objects.create(**values)


def sent(lane: Lane, nonce: int, status: Status = Status.SUBMITTED, **changes: Any) -> Transaction:
    """Create a request with a nonce and its first attempt, and raise the lane's next nonce."""
    fields = changes.pop("fields", {})
    row = request(lane, **changes)
    add_attempt(row, nonce, **fields)
    row.status, row.nonce = status, nonce
    row.save()
    Lane.objects.filter(pk=lane.pk).update(next_nonce=max(nonce + 1, lane.next_nonce or 0))
    lane.refresh_from_db()
    return row


def add_attempt(row: Transaction, nonce: int, purpose: str = "send", key: str = KEY, **fields: Any) -> Attempt:
    """Sign the payload of a row, or with other fields, and store the bytes."""
    payload = {"to": row.to, "value": row.value, "data": bytes(row.data)}
    if purpose in {"cancel", "expire", "close", "gap"}:
        payload = {"to": row.lane.address, "value": 0, "data": b""}
    raw = signed(key, nonce, **(payload | fields))
    attempt = Attempt.objects.create(
        transaction=row,
        number=row.attempts.count() + 1,
        purpose=purpose,
        lane=row.lane,
        epoch=row.lane.epoch,
        nonce=nonce,
        hash=hash_of(raw),
        raw=raw,
        gas_limit=100_000,
        signed_at=database_now(),
    )
    row.last_attempt = attempt
    row.save()
    return attempt


def broadcast(chain: LocalChain, *rows: Transaction) -> None:
    """Send the newest attempt of each row to the node."""
    for row in rows:
        assert row.last_attempt is not None
        chain.send_raw(bytes(row.last_attempt.raw))


@pytest.fixture
def short_depths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let blocks become final soon."""
    monkeypatch.setattr(watching, "network_of", lambda relayer: NETWORK)


def look(lane: Lane) -> PollResult:
    """Look at the chain once for a lane, which then has the new values."""
    found = watching.look([Lane.objects.select_related("relayer").get(pk=lane.pk)])
    lane.refresh_from_db()
    return found


def statuses(*rows: Transaction) -> list[str]:
    for row in rows:
        row.refresh_from_db()
    return [row.status for row in rows]
