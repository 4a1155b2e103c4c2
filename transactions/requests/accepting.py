"""Accepting transactions: a request becomes a pending row, in one database transaction and without a network call.

The lane is locked first, and the relayer is read afterwards: whoever changes the account of a relayer, or deletes it,
locks the lane against this. Only a relayer's first transaction locks the relayer itself. On PostgreSQL, what is read
without a lock is tried first (`unlocked_accept.py`), which is faster and rarely fails.
"""

import hmac
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import Q, Subquery
from rest_framework.exceptions import ValidationError

from relayer_service.api.error_codes import ErrorCode
from relayer_service.api.exceptions import Conflict, Forbidden, TooManyRequests
from relayer_service.api.idempotency import OTHER_BODY
from relayer_service.background.tasks import push
from relayer_service.database.inserting import NO_FRAGMENT, SqlFragment, insert_both
from relayer_service.database.nul import has_nul
from relayer_service.evm import checksummed
from relayer_service.observability import tracing
from relayers.models import Relayer, find_relayer
from signers import signing
from spending import erc20
from transactions import metrics
from transactions.changes import log_change
from transactions.lanes.wake import wake_lane
from transactions.limits import refusals
from transactions.limits.counters import Counters, NewCharges, charge, counted_limits, reserve
from transactions.limits.holders import Holder, SpendingRefused, ceiling_faults, check_rules, payload_of, read_holders
from transactions.models import Lane, Status, StatusChange, Transaction, amount_text
from transactions.records import labels, queues
from transactions.records.crash_points import step
from transactions.records.networks import network_of
from transactions.records.routing import NO_PRIVATE_NODES
from transactions.requests import policy_checks, quotas, unlocked_accept
from transactions.requests.lane_locks import QueuedLane, claim_lane, lock_lane_and_read_relayer
from transactions.requests.relayer_lookup import read_relayer

PAUSED = "Relayer paused"
NO_ADDRESS = "Relayer has no address: its signer has not provided one yet"
NO_CHAIN = "Relayer has no chain ID: its network is unknown"


class SendRequest(NamedTuple):
    """A request of valid shape. `digest` is the digest of its body, compared if there is a key."""

    relayer_id: str
    values: Mapping[str, Any]
    requested_by: str = ""
    key: str | None = None
    digest: str = ""
    token_id: int | None = None
    # The spending policy of the token when it was cached; that in the database counts.
    token_spending: int | None = None
    # The family of the token; "" for staff and the service.
    requester: str = ""


class Accepted(NamedTuple):
    row: Transaction
    # Of the relayer's lane, or else of the row's.
    generation: int
    # How many transactions of its relayer were pending before it; None if it was accepted earlier.
    queued_before: int | None

    @property
    def is_replay(self) -> bool:
        return self.queued_before is None


def accept(request: SendRequest, *, reports_refusals: bool = True) -> Accepted:
    """Insert the row of a request, or return the row of an earlier request with the same key.

    A refusal by a spending rule is recorded and announced, unless the caller does that.
    """
    try:
        metadata = labels.size(request.values.get("metadata", {}))
        quotas.use(request.requester, len(request.values.get("data", b"")) + metadata)
        with refusals.recorded() if reports_refusals else nullcontext():
            return _accept_without_lock(request) or _accept_with_lock(request)
    except (IntegrityError, TooManyRequests):
        # A request with the same key was first: one that is concurrent, or took the last place of a limit.
        earlier = _find_earlier(request, read_relayer(request.relayer_id)[0])
        if earlier is None:
            raise
        return earlier


def _accept_without_lock(request: SendRequest) -> Accepted | None:
    """Accept with two statements of PostgreSQL; return None if the lane is to be locked first."""
    if connection.vendor != "postgresql" or has_nul(request.relayer_id):
        return None
    seen = unlocked_accept.read(request.relayer_id, request.token_id, request.requester)
    request = _with_policy(request, seen.token_spending)
    if earlier := _find_earlier(request, seen.relayer, seen.lane):
        return earlier
    _check_state(seen.relayer)
    if seen.lane is None or not _has_account_of(seen.lane.lane, seen.relayer):
        return None
    if seen.lane.queue.is_close():
        return None
    row, holders = _checked_row(request, seen.relayer, seen.lane)
    counted = counted_limits(holders, row)
    if not counted.keys() <= seen.limits.keys():
        return None
    charges = charge(counted, row, Counters(counted, seen.lane.now, seen=seen.limits)) if counted else None
    # Alone it is a transaction of its own. Within another one, a failure leaves no locks.
    with transaction.atomic() if connection.in_atomic_block else nullcontext():
        if _insert(row, charges, seen.condition(charges)):
            return _announce_acceptance(row, seen.lane)
        if connection.in_atomic_block:
            transaction.set_rollback(True)
    return None


def _accept_with_lock(request: SendRequest) -> Accepted:
    with transaction.atomic():
        locked, relayer, policy = lock_lane_and_read_relayer(request.relayer_id, request.token_id, request.requester)
        request = _with_policy(request, policy)
        if earlier := _find_earlier(request, relayer, locked):
            return earlier
        _check_state(relayer)
        if locked and _has_account_of(locked.lane, relayer):
            return _insert_request(locked, relayer, request)
        # PostgreSQL may hold a lock on a lane that no longer matched, which whoever locks the relayer next waits for.
        transaction.set_rollback(True)
    with transaction.atomic():
        rows = Relayer.objects.select_related("signer").select_for_update(of=("self",), no_key=True)
        relayer = find_relayer(request.relayer_id, rows)
        _check_state(relayer)
        return _insert_request(claim_lane(relayer, *account(relayer), request.requester), relayer, request)


def _insert_request(locked: QueuedLane, relayer: Relayer, request: SendRequest) -> Accepted:
    if locked.queue.is_close():
        locked = locked._replace(queue=queues.count(locked.lane, request.requester, lock=True))
    row, holders = _checked_row(request, relayer, locked)
    try:
        charges = reserve(holders, row, locked.now)
    except SpendingRefused:
        # What the limit has no room for may be a concurrent request with the same key.
        if earlier := _find_earlier(request, relayer, locked):
            return earlier
        raise
    _insert(row, charges)
    return _announce_acceptance(row, locked)


def _with_policy(request: SendRequest, policy: int | None) -> SendRequest:
    """Return a request under the token's spending policy. The rules of a deleted token still apply."""
    return request._replace(token_spending=policy or request.token_spending)


def _has_account_of(lane: Lane, relayer: Relayer) -> bool:
    return (lane.chain_id, lane.address) == account(relayer)


def _checked_row(request: SendRequest, relayer: Relayer, target: QueuedLane) -> tuple[Transaction, list[Holder]]:
    """Return the row of a request that the relayer can send, and who has rules for it; it is not saved."""
    holders = read_holders(relayer, request.token_spending)
    check_request(request.values, relayer, target.now, holders)
    row = new_row(request.values, relayer, target.lane, target.now)
    row.requested_by, row.requester = request.requested_by[:255], request.requester
    row.token_spending_id = request.token_spending
    row.idempotency_key, row.request_digest = request.key, request.digest if request.key else ""
    row.traceparent = tracing.traceparent.get()
    check_rules(holders, row, payload_of(row, relayer.address), relayer.pk)
    if refusal := target.queue.refusal():
        of = {"requester": request.requester} if target.queue.share_used else {}
        wait = queues.retry_after(target.lane, target.now, network_of(relayer).block_seconds, **of)
        raise TooManyRequests(refusal, wait)
    return row, holders


def _announce_acceptance(row: Transaction, target: QueuedLane) -> Accepted:
    step("accepted")
    transaction.on_commit(lambda: metrics.count(metrics.ACCEPTED, target.lane.chain_id), robust=True)
    log_change(row, "", "it is accepted")
    transaction.on_commit(lambda: step("accept_committed"))
    push(wake_lane, target.lane.pk)
    return Accepted(row, target.lane.generation, target.queue.queued)


def account(relayer: Relayer) -> tuple[int, str]:
    """Return the chain ID and the address of a relayer that has both."""
    chain_id = relayer.expected_chain_id
    assert chain_id is not None
    return chain_id, checksummed(relayer.address)


def _check_state(relayer: Relayer) -> None:
    """Raise an error if the relayer cannot accept now. One that the health check disabled can: its rows wait."""
    if relayer.paused:
        raise Forbidden(PAUSED, ErrorCode.RELAYER_PAUSED)
    check_account(relayer)


def check_account(relayer: Relayer) -> None:
    """Raise `Conflict` if the account of a relayer is unknown."""
    if not relayer.address:
        raise Conflict(NO_ADDRESS, ErrorCode.ACCOUNT_UNKNOWN)
    if relayer.expected_chain_id is None:
        raise Conflict(NO_CHAIN, ErrorCode.ACCOUNT_UNKNOWN)


def check_request(
    values: Mapping[str, Any], relayer: Relayer, now: datetime, holders: Iterable[Holder], **others: list[str]
) -> None:
    """Raise an error if the relayer cannot send this payload at this price. Every one passes here: also replacements.

    `holders` may have rules, which limit explicit prices. `others` are faults that the caller has found, by field.
    """
    found = find_faults(values, relayer, now, holders)
    for name, texts in others.items():
        found[name] = [*found.get(name, []), *texts]
    if found:
        raise ValidationError(found, ErrorCode.NOT_ALLOWED)


def find_faults(
    values: Mapping[str, Any], relayer: Relayer, now: datetime, holders: Iterable[Holder]
) -> policy_checks.Faults:
    """Return why the policies, the network, the signer and explicit prices do not allow a request, by field."""
    found = policy_checks.faults(values, relayer.policies, network_of(relayer), now)
    found |= ceiling_faults(values, relayer, holders)
    if relayer.policies.get("private_transactions") and not relayer.has_private_nodes:
        found.setdefault("non_field_errors", []).append(NO_PRIVATE_NODES)
    if reason := signing.incompatibility(relayer.signer, relayer.network_type):
        found.setdefault("non_field_errors", []).append(reason)
    return found


def new_row(values: Mapping[str, Any], relayer: Relayer, lane: Lane, now: datetime) -> Transaction:
    """Return the row that a request becomes; it is not saved."""
    return Transaction(
        relayer=relayer,
        lane=lane,
        epoch=lane.epoch,
        created_at=now,
        due_at=now,
        is_private=bool(relayer.policies.get("private_transactions")),
        **labels.columns(values),
        **payload_columns(values),
        **price_columns(values),
        valid_until=valid_until(values, now),
    )


def payload_columns(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a request executes, as columns of its row."""
    data = values.get("data", b"")
    call = erc20.decode(data) if "to" in values else None
    return {
        "to": checksummed(values["to"]) if "to" in values else "",
        "recipient": call.recipient if call else None,
        "value_text": str(values["value"]),
        "data": data,
        "requested_gas_limit": values.get("gas_limit"),
    }


def price_columns(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a request pays, as columns of its row: explicit prices or a speed."""
    pricing = policy_checks.pricing_of(values)
    is_by_speed = pricing == Transaction.Pricing.SPEED
    return {
        "pricing": pricing,
        "speed": values.get("speed", Transaction.Speed.FAST) if is_by_speed else "",
        "gas_price_text": amount_text(values.get("gas_price")),
        "max_fee_text": amount_text(values.get("max_fee_per_gas")),
        "max_priority_fee_text": amount_text(values.get("max_priority_fee_per_gas")),
    }


def valid_until(values: Mapping[str, Any], now: datetime) -> datetime:
    end: datetime | None = values.get("valid_until")
    return end or now + timedelta(hours=settings.TRANSACTION_VALID_HOURS)


def _insert(row: Transaction, charges: NewCharges | None, condition: SqlFragment = NO_FRAGMENT) -> bool:
    """Insert a row with the first entry of its timeline, and with what it counts on spending limits.

    Return whether the condition was met.
    """
    change = StatusChange(version=row.version, to_status=Status.PENDING, at=row.created_at)
    if connection.vendor == "postgresql":
        also = charges.as_part() if charges else NO_FRAGMENT
        return insert_both(row, change, "transaction_id", also, condition)
    row.save(force_insert=True)
    change.transaction = row
    change.save(force_insert=True)
    if charges:
        charges.save(row)
    return True


def _find_earlier(request: SendRequest, relayer: Relayer, target: QueuedLane | None = None) -> Accepted | None:
    """Return the row of an earlier request with the same key; raise `Conflict` if its body was different.

    The key belongs to the relayer and to its account, whichever token sends: neither a rotated token nor a relayer
    that was created again or has another account may pay twice. If each has a row with the key, that of the relayer
    counts.
    """
    if request.key is None:
        return None
    rows = Transaction.objects.select_related("lane__watch", "last_attempt", "mined_attempt")
    is_own = Q(relayer=relayer) | has_account(relayer, target.lane if target else None)
    found = list(rows.filter(is_own, idempotency_key=request.key).order_by())
    if not found:
        return None
    row = max(found, key=lambda row: row.relayer_id == relayer.pk)
    if not hmac.compare_digest(row.request_digest, request.digest):
        raise Conflict(OTHER_BODY, ErrorCode.IDEMPOTENCY_KEY_REUSED)
    row.relayer = relayer
    return Accepted(row, (target.lane if target else row.lane).generation, None)


def has_account(relayer: Relayer, lane: Lane | None = None) -> Q:
    """Return the condition of transactions from the account of a relayer, whose lane may not be its own yet."""
    if not relayer.address or relayer.expected_chain_id is None:
        return Q(pk__in=[])
    if lane is not None and _has_account_of(lane, relayer):
        return Q(lane=lane.pk)
    chain_id, address = account(relayer)
    # One value, for which PostgreSQL uses the index.
    return Q(lane=Subquery(Lane.objects.filter(chain_id=chain_id, address=address).values("pk")[:1]))
