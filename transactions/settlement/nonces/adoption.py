"""Who owns a transaction of the account that no attempt of its nonce explains: a row adopts it, or it is external.

Only transactions in final blocks, in ascending order of nonces. They come from attempts whose commit was lost, or from
another program that uses the same key.
"""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F

from notifications.emitting import emit
from relayer_service.audit.recording import acted, record
from relayer_service.database.clock import database_now
from relayers.pausing import event_data
from transactions import metrics
from transactions.changes import Changes, lock_rows
from transactions.events import RELAYER_NONCE_USED, NonceUsedData
from transactions.models import IN_FLIGHT, IS_PENDING, NOOPS, Attempt, Hold, Lane, Status, Transaction
from transactions.records.signed_payloads import signed_payload
from transactions.records.states import Cause
from transactions.settlement.judging import NO_RECEIPT, REVERTED, receipt_columns
from transactions.settlement.reading import Receipt
from transactions.settlement.searching import UsedNonce

logger = logging.getLogger(__name__)

# How long after a transaction was found, whose request may have been lost, requests are taken for repetitions of it.
CLAIM_TIME = timedelta(days=1)
UNCLAIMED = (
    "A transaction with this payload was found on the chain after the database may have lost commits: {}. "
    "Staff must decide whether it is this request, on its page in the admin or with manage.py resolve_claims."
)
UNPROVEN = "it is reported to be {}, which has no signature of the account for this chain."
UNCORROBORATED = "before it is queued again, a second node must have the transaction that used it, too: {}."


class NotBelieved(Exception):
    """One node alone reports who used a nonce; the message is the end of the reason of the row that has it."""


class ChangedMeanwhile(Exception):
    """A row changed after it was read. The transaction is rolled back; the next look tries again."""


def settle(lane: Lane, used: UsedNonce, receipt: Receipt, agreed: bool | None, *, is_rollup: bool) -> bool:
    """Assign a used nonce to a row, with the lane locked; return False if a row explains it already.

    First the row that has the nonce, if it requests exactly this transaction; then the oldest one without a nonce that
    does; else it is external. `agreed` is whether a second node has the transaction, None if the relayer has one node.
    If a row has the nonce, that is enough on rollups alone: deposits have no signature, which would prove it.
    """
    owner = Transaction.objects.filter(lane=lane, epoch=lane.epoch, nonce=used.nonce).first()
    if owner is None and used.nonce != lane.next_nonce:
        return False
    if owner is not None and (owner.status not in IN_FLIGHT or owner.attempts.filter(hash=used.hash).exists()):
        return False
    # Of a nonce that no row has, no payload was signed: staff may have accepted its use.
    is_accepted = owner is None and used.nonce < (lane.accepted_below or 0)
    is_agreed = agreed and (owner is None or is_rollup)
    if not (used.is_proven or is_agreed or is_accepted):
        raise NotBelieved(UNPROVEN.format(used.hash))
    version = None if owner is None else _own_version(owner, used)
    if owner is not None and version is None and agreed is False:
        raise NotBelieved(UNCORROBORATED.format(used.hash))
    if owner is not None and version is not None:
        _adopt(lane, _lock(owner), used, version)
    else:
        if owner is not None:
            _take_nonce(_lock(owner), used, is_corroborated=bool(agreed))
        match = _matching_request(lane, used)
        if match is not None:
            _adopt(lane, _lock(match), used, match.payload_version)
        else:
            _insert_external(lane, used, receipt)
    if used.nonce == lane.next_nonce:
        lane.next_nonce = used.nonce + 1
    lane.search_block, lane.searched_block, lane.searches, lane.search_again_at = used.block.number - 1, None, 0, None
    lane.save(update_fields=["next_nonce", "search_block", "searched_block", "searches", "search_again_at"])
    return True


def _lock(row: Transaction) -> Transaction:
    try:
        return lock_rows([row])[row.pk]
    except KeyError:
        raise ChangedMeanwhile from None


def has_payload(row: Transaction, other: UsedNonce | Transaction) -> bool:
    """Return whether a row requests exactly this: receiver, value and data."""
    return (row.to.lower(), row.value, bytes(row.data)) == (other.to.lower(), other.value, bytes(other.data))


def _own_version(owner: Transaction, used: UsedNonce) -> int | None:
    """Return the version of the owner's payload that this is, also of one that was replaced; None if it is none."""
    if has_payload(owner, used):
        return owner.payload_version
    wanted = (used.to.lower(), str(used.value), used.data)
    signed = owner.attempts.filter(epoch=owner.epoch, nonce=used.nonce, payload_version__lt=owner.payload_version)
    for attempt in signed.exclude(purpose__in=NOOPS).order_by("number"):
        found = signed_payload(attempt)
        if found and (found["to"].lower(), found["value_text"], found["data"]) == wanted:
            return attempt.payload_version
    return None


def _matching_request(lane: Lane, used: UsedNonce) -> Transaction | None:
    """Return the oldest open row without a nonce that requests exactly this transaction."""
    waiting = Transaction.objects.filter(IS_PENDING, lane=lane, kind=Transaction.Kind.REQUEST)
    same = waiting.filter(to__iexact=used.to, value_text=str(used.value)).order_by("sequence")
    return next((row for row in same if has_payload(row, used)), None)


def _take_nonce(owner: Transaction, used: UsedNonce, *, is_corroborated: bool) -> None:
    """Take the nonce from a row whose attempts can never be mined any more: a request is queued again."""
    changes = Changes()
    if owner.kind == Transaction.Kind.REQUEST:
        reason = f"Another transaction used its nonce {used.nonce}: {used.hash}. It is queued again."
        changes.move(
            owner,
            Cause.NONCE_TAKEN,
            reason,
            nonce=None,
            sent_at=None,
            submitted_at=None,
            due_at=changes.now,
            tries=0,
            # The newest payload and price are those that are sent next.
            requested_action=owner.requested_action if owner.is_ending else "",
            corroborated_at=changes.now if is_corroborated else None,
            **NO_RECEIPT,
        )
    else:
        changes.move(owner, Cause.GAP_TAKEN, f"Another transaction used its nonce {used.nonce}.", nonce=None)
    # At once, as another row gets the nonce in this transaction.
    changes.save()


def _adopt(lane: Lane, row: Transaction, used: UsedNonce, version: int) -> None:
    """Add a transaction on the chain to a row as an attempt. The next look finds its receipt, and the row is mined."""
    attempt = _add_attempt(lane, row, used, version)
    changes = Changes()
    reason = f"It was found on the chain as {used.hash}."
    columns: dict[str, Any] = {"nonce": used.nonce, "epoch": lane.epoch, "last_attempt": attempt}
    if row.status == Status.PENDING:
        changes.move(row, Cause.ADOPTED, reason, attempt=attempt, sent_at=changes.now, **columns)
    else:
        changes.update(row, status_reason=reason, **columns)
    changes.save()
    logger.warning("The transaction %s of the lane %s is %s, which was found on the chain.", row, lane, used.hash)


def _add_attempt(lane: Lane, row: Transaction, used: UsedNonce, version: int = 1) -> Attempt:
    known = Attempt.objects.filter(lane=lane, epoch=lane.epoch, hash=used.hash).first()
    if known is not None:
        # Its row lost the nonce, and a reorg beyond finality brought it back.
        logger.critical("The transaction %s of the lane %s was mined after its nonce was lost.", used.hash, lane)
        return known
    now, last = database_now(), row.attempts.order_by("number").last()
    return Attempt.objects.create(
        transaction=row,
        number=last.number + 1 if last else 1,
        purpose=Attempt.Purpose.EXTERNAL,
        payload_version=version,
        lane=lane,
        epoch=lane.epoch,
        nonce=used.nonce,
        hash=used.hash,
        raw=b"",
        gas_limit=used.gas_limit,
        signed_at=now,
        accepted_at=now,
        **used.prices,
    )


def _insert_external(lane: Lane, used: UsedNonce, receipt: Receipt) -> None:
    """Insert a row for a nonce that another program used, or an attempt whose commit and request were lost."""
    now = database_now()
    is_noop = (used.to, used.value, used.data) == (lane.address, 0, b"")
    may_be_lost = Hold.LOST_COMMITS in lane.holds and not is_noop
    row = Transaction.objects.create(
        relayer=lane.relayer,
        lane=lane,
        epoch=lane.epoch,
        kind=Transaction.Kind.EXTERNAL,
        created_at=now,
        status=Status.SUBMITTED,
        to=used.to,
        value_text=str(used.value),
        data=used.data,
        nonce=used.nonce,
        valid_until=now,
        unclaimed_until=now + CLAIM_TIME if may_be_lost else None,
    )
    attempt = _add_attempt(lane, row, used)
    changes = Changes()
    columns: dict[str, Any] = {"last_attempt": attempt, "mined_attempt": attempt, "mined_at": now}
    changes.move(row, Cause.FOUND, attempt=attempt, **columns, **receipt_columns(receipt, attempt))
    changes.save()
    logger.warning("Nonce %s of the lane %s was used by another program: %s", used.nonce, lane, used.hash)
    metrics.count(metrics.NONCES_TAKEN, lane.chain_id)
    if lane.relayer is not None:
        data = NonceUsedData(**event_data(lane.relayer), nonce=used.nonce, hash=used.hash)
        emit(RELAYER_NONCE_USED, lane.relayer.notification, data)


def unclaimed_matches(rows: Sequence[Transaction]) -> dict[int, str]:
    """Return why requests of one lane must wait for staff, by primary key; one query for all of them."""
    return {pk: UNCLAIMED.format(found.mined_attempt) for pk, found in find_claims(rows).items()}


def find_claim(row: Transaction) -> Transaction | None:
    """Return the transaction on the chain that staff must compare with a request before it is sent."""
    return find_claims([row]).get(row.pk)


def find_claims(rows: Sequence[Transaction]) -> dict[int, Transaction]:
    """Return the transactions on the chain that requests of one lane may be repetitions of, by primary key.

    After commits were lost, a client may request again what was executed already. A request that was created more than
    a day after that is a new one; an earlier one waits until staff have decided, however long that takes.
    """
    asking = [row for row in rows if row.status == Status.PENDING and not row.claim_released]
    if not asking:
        return {}
    claimable = unclaimed(asking[0].lane_id, min(row.created_at for row in asking))
    found = {
        row.pk: next((each for each in claimable if has_payload(row, each) and _claims(each, row)), None)
        for row in asking
    }
    return {pk: each for pk, each in found.items() if each is not None}


def _claims(found: Transaction, row: Transaction) -> bool:
    return found.unclaimed_until is not None and row.created_at < found.unclaimed_until


def unclaimed(lane_pk: int, since: datetime) -> list[Transaction]:
    """Return the transactions on the chain that requests created since then may repeat, the oldest first."""
    found = Transaction.objects.filter(lane=lane_pk, epoch=F("lane__epoch"), unclaimed_until__gt=since)
    return list(found.exclude(mined_attempt=None).select_related("mined_attempt").order_by("sequence"))


def link(row: Transaction, external: Transaction, why: str = "") -> bool:
    """Decide that a transaction on the chain is this request, which gets its nonce and result.

    Return False if either has changed since it was read.
    """
    with transaction.atomic():
        Lane.objects.select_for_update(no_key=True).get(pk=row.lane_id)
        locked = lock_rows([row, external])
        request, found = locked.get(row.pk), locked.get(external.pk)
        if request is None or found is None or not _can_link(request, found):
            return False
        attempt, columns = found.mined_attempt, {name: getattr(found, name) for name in COPIED}
        assert attempt is not None
        last = request.attempts.order_by("number").last()
        Attempt.objects.filter(pk=attempt.pk).update(transaction=request, number=last.number + 1 if last else 1)
        # The nonce belongs to one row: the other one was never a request.
        found.delete()
        attempt.refresh_from_db()
        changes = Changes()
        cause, reason = (Cause.SUCCEEDED, "") if columns["succeeded"] else (Cause.REVERTED, REVERTED)
        changes.move(request, cause, reason, attempt=attempt, mined_attempt=attempt, last_attempt=attempt, **columns)
        changes.save()
        record([acted(request, f"Linked to {attempt.hash}, which was found on the chain. {why}".strip())])
    return True


COPIED = (
    "nonce", "epoch", "mined_at", "block_number", "block_hash", "succeeded", "gas_used", "effective_gas_price_text",
    "l1_fee_text", "contract_address",
)  # fmt: skip


def _can_link(request: Transaction, found: Transaction) -> bool:
    is_open = request.status == Status.PENDING and not request.claim_released
    return is_open and request.lane_id == found.lane_id and has_payload(request, found) and _claims(found, request)


def release_claim(row: Transaction, why: str = "") -> bool:
    """Decide that a request is a new one, which is sent; return False if it has changed since it was read."""
    with transaction.atomic():
        locked = lock_rows([row]).get(row.pk)
        if locked is None or locked.status != Status.PENDING or locked.claim_released:
            return False
        changes = Changes()
        changes.update(locked, claim_released=True, status_reason="", due_at=changes.now)
        changes.save()
        record([acted(locked, f"It is not a transaction that was found on the chain: it is sent. {why}".strip())])
    return True
