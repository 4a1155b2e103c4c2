"""Signing the attempts of a lane."""

import time
from dataclasses import dataclass

from chain.transactions import Draft, transaction_hash
from relayer_service.observability import tracing
from signers import signing
from signers.models import Signer
from transactions import metrics


@dataclass(frozen=True)
class Signed:
    draft: Draft
    raw: bytes
    hash: str


def sign(signer: Signer, address: str, draft: Draft, traceparent: str = "") -> Signed:
    """Return the signed transaction; raise `SignerError` if its sender would not be the address of the lane."""
    backend = signing.account_backend(signer, address)
    # Has the low s, and recovers to the address just compared.
    started = time.monotonic()
    with tracing.following(traceparent):
        signature = backend.sign_digest(draft.digest)
    metrics.SIGNER_SECONDS.labels(signer.type).observe(time.monotonic() - started)
    raw = draft.signed(signature.recovery_id, signature.r, signature.s)
    return Signed(draft, raw, transaction_hash(raw))
