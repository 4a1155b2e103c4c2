"""Rows with fixed values."""

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from relayer_client.outbox import enqueue
from relayer_client.outbox.models import OutboxTransaction

RECEIVER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"


def add(key: str, relayer: str = "sender", **fields: Any) -> OutboxTransaction:
    with transaction.atomic():
        return enqueue(relayer, key=key, **{"to": RECEIVER, "value": 1, **fields})


def add_many(count: int, **fields: Any) -> list[OutboxTransaction]:
    return [add(f"payout-{number}", value=number, **fields) for number in range(count)]


def make_due() -> None:
    """End all pauses and leases."""
    past = timezone.now() - timedelta(seconds=1)
    OutboxTransaction.objects.exclude(next_attempt_at=None).update(next_attempt_at=past)


def statuses() -> dict[str, str]:
    return dict(OutboxTransaction.objects.order_by("pk").values_list("key", "status"))
