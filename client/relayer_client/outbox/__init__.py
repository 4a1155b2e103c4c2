"""An outbox for Django: transactions that are committed together with the caller's rows, and sent afterwards.

`enqueue` stores a transaction; `manage.py send_outbox`, or `sending.send_outbox_once` as a task of any queue, hands it
over to the service and follows it; `signals` report its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from relayer_client.fields import TransactionFields

if TYPE_CHECKING:
    from relayer_client.outbox.models import OutboxTransaction
    from relayer_client.webhooks import Event

# Models cannot be imported before Django has loaded all apps, of which this module is one.


def enqueue(
    relayer: str, *, key: str, using: str | None = None, **fields: Unpack[TransactionFields]
) -> OutboxTransaction:
    """Store a transaction for a relayer in the caller's `transaction.atomic()`, and return its row.

    `key` is your own name for it, such as `payout-4711`: the same call again returns the same row, and another
    content raises `KeyReused`. Fields are those of `Relayer.send`.
    """
    from relayer_client.outbox.models import OutboxTransaction

    return OutboxTransaction.objects.enqueue(relayer, key=key, using=using, **fields)


def cancel(key: str, *, using: str | None = None) -> OutboxTransaction:
    """End a queued transaction that was never handed over, and return its row; raise `StatusConflict` for others."""
    from relayer_client.outbox.models import OutboxTransaction

    return OutboxTransaction.objects.cancel(key, using)


def retry(key: str, *, using: str | None = None) -> OutboxTransaction:
    """Queue a failed transaction again that certainly was not accepted; raise `StatusConflict` for others."""
    from relayer_client.outbox.models import OutboxTransaction

    return OutboxTransaction.objects.retry(key, using)


def follow_now(event: Event, *, using: str | None = None) -> None:
    """Make the next run read the transaction of a verified webhook, which otherwise waits for its turn."""
    from relayer_client.outbox.models import OutboxTransaction

    if event.type.startswith("transaction.") and "id" in event.data:
        OutboxTransaction.objects.follow_now(event.data["id"], using)
