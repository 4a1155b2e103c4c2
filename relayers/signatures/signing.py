"""Signing messages and typed data with the key of a relayer, within the request.

The signature leaves only after its audit entry is committed. The relayer is read again in that transaction: one that
was paused while the signer was called returns no signature.
"""

import logging
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from django.db import transaction
from rest_framework.exceptions import PermissionDenied, ValidationError

from chain.typed_data import TypedData
from relayer_service.api.error_codes import ErrorCode
from relayer_service.api.exceptions import Conflict, Forbidden, ServiceUnavailable
from relayer_service.audit.recording import acted, record, record_repeated
from relayer_service.background.shares import waiting_for_others
from relayers.models import Relayer, find_relayer
from relayers.reach import reached, reaches
from signers import signing
from signers.backends.base import Signature, SignerError
from spending.models import SpendingPolicy
from spending.rules import Rules, Verdict, message_verdicts, typed_data_verdicts

logger = logging.getLogger(__name__)

Kind = Relayer.SigningKind

PAUSED = "Relayer paused"
DISABLED = "Relayer disabled"
NOT_ALLOWED = "Relayer does not allow signing {}: `allow_signing` must have `{}`"
VALID_ELSEWHERE = "The signature would be valid for another relayer with this account, which does not allow it"
NO_ADDRESS = "Relayer has no address: its signer has not provided one yet"
OTHER_CHAIN = "must be {}, the chain ID of the relayer"
NO_POLICY = "The spending rules of the token no longer exist."
NO_CHAIN = "cannot be checked: the relayer has no chain ID"
SIGNED = {Kind.MESSAGES: "Signed a message.", Kind.TYPED_DATA: "Signed typed data."}
SIGNED_HASHES = "Signed typed data, sent as two hashes."
CANNOT_SIGN = "The signer did not sign; its page in the admin has the cause"
REFUSED = {
    Kind.MESSAGES: "Refused to sign a message, by the spending rule {}.",
    Kind.TYPED_DATA: "Refused to sign typed data, by the spending rule {}.",
}


@dataclass(frozen=True)
class SigningRequest:
    """A request of valid shape. `typed_data` is None for a message, and for typed data that was sent as two hashes."""

    relayer_id: str
    kind: Kind
    digest: bytes
    typed_data: TypedData | None = None
    # The bytes of a message.
    size: int = 0
    # Those of the token.
    spending_id: int | None = None
    allowed_relayers: Sequence[str] = ()


class RefusedByRule(Forbidden):
    """A spending rule of the relayer or of the token refuses a message or typed data."""

    default_code = ErrorCode.SPENDING_REFUSED

    def __init__(self, relayer: Relayer, verdict: Verdict) -> None:
        super().__init__(verdict.text)
        self.relayer, self.rule = relayer, verdict.rule


def sign(request: SigningRequest) -> Signature:
    """Return the signature of a digest, recorded; this may call a server and wait for it."""
    try:
        return _sign(request)
    except RefusedByRule as refusal:
        cause = REFUSED[request.kind].format(refusal.rule)
        with transaction.atomic():
            if relayer := Relayer.objects.select_for_update(no_key=True).filter(pk=refusal.relayer.pk).first():
                record_repeated(relayer, f"{cause} {_digest(request)}", cause)
        raise


def _sign(request: SigningRequest) -> Signature:
    relayer = _allowed_relayer(request)
    signature = _signature(relayer, request.digest)
    with transaction.atomic():
        _allowed_relayer(request)
        record([acted(relayer, _reason(request))])
    return signature


def _allowed_relayer(request: SigningRequest) -> Relayer:
    """Return the relayer; raise an error unless it may sign this now."""
    relayer = find_relayer(request.relayer_id, Relayer.objects.select_related("signer", "health"))
    check_state(relayer, request.kind)
    # Its tags may have changed while the signer answered.
    if not reaches(request.allowed_relayers, relayer.identifier):
        raise PermissionDenied
    if reason := signing.incompatibility(relayer.signer, relayer.network_type):
        raise ValidationError(reason, ErrorCode.NOT_ALLOWED)
    check_chain(relayer, request.typed_data)
    check_rules([relayer, *_others(relayer, request)], request)
    return relayer


def _others(relayer: Relayer, request: SigningRequest) -> list[Relayer]:
    """Return the other relayers that the signature would be valid for; raise an error unless each allows it."""
    chain_id = request.typed_data.chain_id if request.typed_data else None
    others = [each for each in relayer.others_with_key() if chain_id in {None, each.expected_chain_id}]
    allowed = {*reached(request.allowed_relayers, relayer.others_with_key()).values_list("pk", flat=True)}
    if any(each.paused or each.pk not in allowed or request.kind not in each.allow_signing for each in others):
        raise Forbidden(VALID_ELSEWHERE, ErrorCode.SIGNING_NOT_ALLOWED)
    return others


def check_state(relayer: Relayer, kind: Kind) -> None:
    if relayer.paused:
        raise Forbidden(PAUSED, ErrorCode.RELAYER_PAUSED)
    if relayer.health.system_disabled:
        raise Forbidden(DISABLED, ErrorCode.RELAYER_DISABLED)
    if kind not in relayer.allow_signing:
        raise Forbidden(NOT_ALLOWED.format(kind.label, kind.value), ErrorCode.SIGNING_NOT_ALLOWED)
    if not relayer.address:
        raise Conflict(NO_ADDRESS, ErrorCode.ACCOUNT_UNKNOWN)


def check_chain(relayer: Relayer, typed_data: TypedData | None) -> None:
    """Raise an error if typed data is for another chain."""
    expected = relayer.expected_chain_id
    if typed_data and typed_data.chain_id not in {None, expected}:
        fault = NO_CHAIN if expected is None else OTHER_CHAIN.format(expected)
        raise ValidationError({"domain.chainId": [fault]}, ErrorCode.NOT_ALLOWED)


def check_rules(relayers: Sequence[Relayer], request: SigningRequest) -> None:
    """Raise an error if a spending rule of a relayer or of the token refuses to sign this."""
    holders = {each.spending_id: each for each in relayers} | {request.spending_id: relayers[0]}
    holders.pop(None, None)
    # Read now, and not from a cached token.
    found = SpendingPolicy.objects.in_bulk(holders)
    for policy, relayer in holders.items():
        if policy not in found:
            raise Forbidden(NO_POLICY, ErrorCode.SPENDING_REFUSED)
        for verdict in _verdicts(found[policy].rules, request) if found[policy].rules else ():
            if not verdict.allowed:
                raise RefusedByRule(relayer, verdict)


def _verdicts(rules: Rules, request: SigningRequest) -> list[Verdict]:
    if request.kind == Kind.MESSAGES:
        return message_verdicts(rules, request.size)
    return typed_data_verdicts(rules, request.typed_data.as_json() if request.typed_data else None)


def _signature(relayer: Relayer, digest: bytes) -> Signature:
    signer = relayer.signer
    try:
        # A local key takes a millisecond. Others are limited to a share of the threads, and hold no connection.
        with nullcontext() if signing.is_local(signer) else waiting_for_others():
            signature = signing.account_backend(signer, relayer.address).sign_digest(digest)
    except SignerError as error:
        logger.warning("The signer of the relayer %s cannot sign: %s", relayer, error)
        signing.note_error(signer, str(error))
        raise ServiceUnavailable(CANNOT_SIGN, ErrorCode.SIGNER_UNAVAILABLE) from None
    signing.note_error(signer, "")
    return signature


def _reason(request: SigningRequest) -> str:
    is_hashes = request.kind == Kind.TYPED_DATA and request.typed_data is None
    return f"{SIGNED_HASHES if is_hashes else SIGNED[request.kind]} {_digest(request)}"


def _digest(request: SigningRequest) -> str:
    return f"Digest: 0x{request.digest.hex()}"
