"""What signed bytes execute: after a replacement, the attempts of a row have different payloads."""

from typing import Any

from chain.transactions.decoding import decode
from transactions.models import NOOPS, Attempt, Transaction


def is_superseded(row: Transaction, attempt: Attempt | None) -> bool:
    """Return whether an attempt has a payload that the row was replaced from."""
    return attempt is not None and attempt.purpose not in NOOPS and attempt.payload_version < row.payload_version


def signed_payload(attempt: Attempt) -> dict[str, Any]:
    """Return receiver, value and data of an attempt as columns of its row; {} if there are no bytes with them.

    One that was found on the chain has no bytes: others with the same version have the same payload.
    """
    raw = bytes(attempt.raw)
    if not raw:
        others = Attempt.objects.filter(transaction=attempt.transaction_id, payload_version=attempt.payload_version)
        signed = others.exclude(purpose__in=[*NOOPS, Attempt.Purpose.EXTERNAL]).values_list("raw", flat=True).first()
        raw = bytes(signed or b"")
    if not raw:
        return {}
    found = decode(f"0x{raw.hex()}")
    return {"to": found.to or "", "value_text": str(found.value), "data": found.data}
