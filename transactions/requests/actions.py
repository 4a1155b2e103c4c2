"""What clients and staff can request of a transaction: cancel it, replace it, raise its price, broadcast it again.

A request is recorded on the row, and the lane carries it out: nothing is signed here. The lane is locked before the
row, as the engine does, so that it cannot be held or released before the commit.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import F, Q
from rest_framework.exceptions import ValidationError

from chain.units import gwei
from relayer_service.api.error_codes import ErrorCode
from relayer_service.api.exceptions import Conflict, Forbidden, NotFound
from relayer_service.api.serializers import IMMUTABLE
from relayer_service.audit import actors
from relayer_service.audit.models import AuditEntry
from relayer_service.audit.recording import acted, record
from relayer_service.background.tasks import push
from relayer_service.database.access import require_durability
from relayers.models import Relayer
from transactions.changes import Changes, locking_rows
from transactions.lanes.wake import wake_lane
from transactions.limits import refusals
from transactions.limits.budgets import recharge
from transactions.limits.holders import ceiling_faults, check_price_is_counted, payload_of, read_holders
from transactions.models import IS_IN_FLIGHT, IS_PENDING, Attempt, Lane, Status, Transaction, amount_text
from transactions.records import labels, routing
from transactions.records.crash_points import step
from transactions.records.networks import network_of
from transactions.records.states import Cause
from transactions.requests import accepting
from transactions.requests.possible_actions import HELD, RESEND, refusal
from transactions.requests.replacement_prices import (
    attempts_at_nonce,
    next_price,
    price_faults,
    requested,
    staff_price_range,
    without_type,
)
from transactions.settlement.nonces import adoption, holds

Action, Kind, Pricing = Transaction.Action, Transaction.Kind, Transaction.Pricing

CANCELED = "It was canceled before it was sent."
# Transactions that are canceled together: few enough that the lane's worker does not wait long.
BATCH_SIZE = 100


class Refused(Conflict):
    """The action is not possible now. The text says why, and is safe to show."""

    default_code = ErrorCode.NOT_CHANGEABLE


class Changed(Refused):
    """The transaction is not as it was shown to whoever requests an action."""

    default_detail = "It has changed since this page was opened: check the prices again."


def cancel(
    row_id: int, *, by: str, reason: str = "", noop_price: int | None = None, version: int | None = None
) -> Transaction:
    """Request that a transaction is canceled: at once without a nonce, otherwise by a no-op at its nonce.

    It takes over an expiry of the service. Requested again, it changes nothing. Staff can choose the price of the
    no-op, for the version of the row that they have seen.
    """
    with transaction.atomic():
        row = _lock(row_id, version)
        if noop_price is not None:
            _check_noop_price(row, noop_price)
        if refused := _cancel(row.lane, [row], by, reason, amount_text(noop_price))[row.pk]:
            raise Refused(refused)
    return row


def replace(
    row_id: int, values: Mapping[str, Any], *, by: str, reason: str = "", token_spending: int | None = None
) -> Transaction:
    """Request that a transaction is replaced by another payload with the same nonce.

    `values` have the valid shape of a request to send. The request that is already recorded changes nothing. The
    spending rules are those of the relayer and of the token that replaces it, not of the one that requested it.
    """
    with refusals.recorded(), transaction.atomic():
        row = _lock(row_id)
        relayer = _check(row, Action.REPLACE)
        _check_labels(row, values)
        if _is_repeated(row, values):
            return row
        if not holds.allows_closing(row.lane):
            # Its payload may be on the chain, in a transaction whose commit was lost.
            raise Refused(HELD)
        if row.nonce is None and (doubt := adoption.unclaimed_matches([row]).get(row.pk)):
            raise Refused(doubt)
        changes, former = Changes(), row.token_spending_id
        # Refuses if the rules of the token no longer exist.
        holders, faults = read_holders(relayer, token_spending), price_faults(values, attempts_at_nonce(row))
        accepting.check_request(values, relayer, changes.now, holders, **faults)
        columns = {**accepting.payload_columns(values), **accepting.price_columns(values)}
        columns["valid_until"] = accepting.valid_until(values, changes.now)
        columns |= {"payload_version": row.payload_version + 1, "token_spending_id": token_spending}
        columns["due_at"] = row.due_at if row.requested_action == Action.REPLACE else changes.now
        columns["is_private"] = routing.is_private(row, relayer.policies)
        before = requested(row)
        _request(changes, row, Action.REPLACE, columns, reason)
        recharge(row, payload_of(row), changes.now, former)
        _finish(changes, row.lane, [_entry(row, f"Replacement {columns['payload_version']}", by, reason, before)])
    return row


def speed_up(
    row_id: int,
    price: Mapping[str, Any],
    *,
    by: str,
    reason: str = "",
    token_spending: int | None = None,
    version: int | None = None,
) -> Transaction:
    """Request a higher price: by speed, explicit prices, or one step up if `price` is empty.

    One step up is the next speed, and at least the minimum that replaces the newest attempt; explicit prices rise by
    that minimum. While a request with an empty `price` is recorded, another one changes nothing. The gas counts on the
    rules of the relayer and of the token that requested the transaction, so one with a limit of gas can only raise the
    price of its own. With a version, the row is still the one that was shown.
    """
    with refusals.recorded(), transaction.atomic():
        row = _lock(row_id, version)
        relayer = _check(row, Action.SPEED_UP)
        check_price_is_counted(row, payload_of(row), token_spending)
        if row.requested_action == Action.SPEED_UP and (not price or _has_price(row, price)):
            return row
        attempts = attempts_at_nonce(row)
        if attempts and row.pricing != Pricing.SPEED and not row.requested_action and _has_price(row, price):
            return row
        changes, values = Changes(), dict(price) or next_price(row, attempts, network_of(relayer))
        if row.kind == Kind.REQUEST:
            # One step up replaces what is in flight, and keeps its type whatever the policy.
            faults = price_faults(values, attempts) if price else {}
            holders = [each for key in (row.token_spending_id, token_spending) for each in read_holders(relayer, key)]
            faults |= ceiling_faults(values, relayer, holders)
            checked = values if price else without_type(values)
            checked = {**_payload_values(row, attempts), **checked}
            accepting.check_request(checked, relayer, changes.now, [], **faults)
        before = requested(row)
        _request(changes, row, Action.SPEED_UP, accepting.price_columns(values), reason)
        _finish(changes, row.lane, [_entry(row, "Higher price", by, reason, before)])
    return row


def resend(row_id: int, *, by: str, reason: str = "") -> Transaction:
    """Request that the signed bytes of a transaction are broadcast again now."""
    with transaction.atomic():
        row = _lock(row_id)
        if refused := refusal(row, RESEND):
            raise Refused(refused)
        # As if it had never been broadcast: then it is due in the next turn.
        assert row.last_attempt is not None
        Attempt.objects.filter(pk=row.last_attempt.pk).update(last_broadcast_at=None)
        _finish(Changes(), row.lane, [_entry(row, "Broadcast", by, reason)])
    return row


def cancel_all(relayer: Relayer, which: Q, *, by: str, reason: str = "") -> tuple[list[str], list[str]]:
    """Cancel the transactions on a condition that are not mined yet; return the IDs of those, and where it failed."""
    waiting = Transaction.objects.filter(IS_PENDING | IS_IN_FLIGHT, relayer=relayer, kind=Kind.REQUEST)
    keys = list(waiting.filter(which).order_by("sequence").values_list("pk", "lane_id"))
    requested: list[str] = []
    failed: list[str] = []
    for start in range(0, len(keys), BATCH_SIZE):
        batch = keys[start : start + BATCH_SIZE]
        for lane_pk in sorted({lane for _, lane in batch}):
            with transaction.atomic():
                lane = _lock_lane(lane_pk)
                rows = _lock_rows(lane, [pk for pk, of_lane in batch if of_lane == lane_pk])
                refused = _cancel(lane, rows, by, reason)
            for row in rows:
                (failed if refused[row.pk] else requested).append(row.identifier)
    return requested, failed


def _lock(row_id: int, version: int | None = None) -> Transaction:
    lane_pk = Transaction.objects.filter(pk=row_id).values_list("lane_id", flat=True).first()
    rows = _lock_rows(_lock_lane(lane_pk), [row_id]) if lane_pk is not None else []
    if not rows:
        raise NotFound
    if version is not None and rows[0].version != version:
        raise Changed
    return rows[0]


def _lock_lane(lane_pk: int) -> Lane:
    # What was requested must survive a crash of the server.
    require_durability()
    locked: Lane = Lane.objects.select_for_update(no_key=True, of=("self",)).select_related("watch").get(pk=lane_pk)
    return locked


def _lock_rows(lane: Lane, keys: Iterable[int]) -> list[Transaction]:
    rows = list(locking_rows().filter(pk__in=keys))
    for row in rows:
        row.lane = lane
    return rows


def _check_noop_price(row: Transaction, price: int) -> None:
    """Raise an error if a no-op at this price cannot replace what is in flight, or exceeds the cap."""
    lowest, highest = staff_price_range(row, attempts_at_nonce(row))
    if row.nonce is None or not lowest <= price <= highest:
        text = f"must be from {gwei(lowest)} to {gwei(highest)}, to replace the transaction in flight within the cap"
        raise ValidationError({"noop_price": [text]}, ErrorCode.NOT_ALLOWED)


def _cancel(lane: Lane, rows: Sequence[Transaction], by: str, reason: str, noop_price: str = "") -> dict[int, str]:
    """Cancel rows whose lane is locked; return why each cannot be canceled, or "", by primary key."""
    changes, entries, reasons = Changes(), [], {}
    allows_closing = holds.allows_closing(lane)
    # A transaction with their payload is on the chain: staff decide first whether it is theirs.
    doubts = adoption.unclaimed_matches(rows)
    for row in rows:
        is_repeated = row.requested_action == Action.CANCEL
        reasons[row.pk] = "" if is_repeated else refusal(row, Action.CANCEL) or doubts.get(row.pk, "")
        if is_repeated or reasons[row.pk]:
            continue
        if row.status == Status.PENDING and allows_closing:
            changes.move(row, Cause.CANCELED, CANCELED, **_requester(reason))
        else:
            _request(changes, row, Action.CANCEL, {"noop_price_text": noop_price}, reason)
        entries.append(_entry(row, "Cancellation", by, reason))
    if entries:
        _finish(changes, lane, entries)
    return reasons


def _request(
    changes: Changes, row: Transaction, action: Transaction.Action, columns: Mapping[str, Any], reason: str
) -> None:
    """Record an action. Without a nonce, a new payload and price are those that are sent, and need no action."""
    needed: str = action
    columns = {**_requester(reason), **columns}
    if row.nonce is None:
        needed = action if action == Action.CANCEL else ""
        columns = {**columns, "due_at": changes.now, "tries": 0}
    elif action == Action.SPEED_UP and row.requested_action == Action.REPLACE:
        # The replacement is signed with the new price, and keeps its requester.
        needed = Action.REPLACE
        columns = {**columns, "action_actor": row.action_actor, "action_note": row.action_note}
    why = "Its cancellation was requested." if action == Action.CANCEL else ""
    changes.update(row, **columns, requested_action=needed, action_reason=why, status_reason="")


def _requester(reason: str) -> dict[str, Any]:
    """Return the columns that say who requests an action now, and why."""
    return {"action_actor": str(actors.current()), "action_note": reason}


def _entry(row: Transaction, action: str, by: str, reason: str, before: Mapping[str, str] | None = None) -> AuditEntry:
    """Return the entry of an action, with what it requests in place of what was requested before."""
    values = (before, requested(row)) if before else ()
    return acted(row, f"{action} requested by {by}{f': {reason}' if reason else '.'}", *values)


def _finish(changes: Changes, lane: Lane, entries: Iterable[Any]) -> None:
    changes.save()
    # The push may reach a worker that does not have the lane.
    Lane.objects.filter(pk=lane.pk).update(actions=F("actions") + 1)
    record(entries)
    step("requested")
    transaction.on_commit(lambda: step("request_committed"))
    push(wake_lane, lane.pk)


def _check(row: Transaction, action: str) -> Relayer:
    """Return the relayer of a row that an action is possible for; raise an error if it is not."""
    if row.relayer is None or row.relayer.paused:
        raise Forbidden(accepting.PAUSED, ErrorCode.RELAYER_PAUSED)
    if reason := refusal(row, action):
        raise Refused(reason)
    return row.relayer


def _check_labels(row: Transaction, values: Mapping[str, Any]) -> None:
    """Raise an error for other labels than those of the row, which keeps them: events have reported them."""
    wanted = labels.columns(values)
    faults = {name: [IMMUTABLE] for name in wanted if name in values and wanted[name] != getattr(row, name)}
    if faults:
        raise ValidationError(faults)


def _is_repeated(row: Transaction, values: Mapping[str, Any]) -> bool:
    """Return whether a row has this payload and price already: the client sends the request again."""
    wanted = {**accepting.payload_columns(values), **accepting.price_columns(values)}
    if "valid_until" in values:
        wanted["valid_until"] = values["valid_until"]
    own = {name: getattr(row, name) for name in wanted} | {"data": bytes(row.data)}
    return own == wanted


def _has_price(row: Transaction, price: Mapping[str, Any]) -> bool:
    wanted = accepting.price_columns(price)
    return {name: getattr(row, name) for name in wanted} == wanted


def _payload_values(row: Transaction, attempts: Sequence[Attempt]) -> dict[str, Any]:
    """Return the payload of a row as the values of a request."""
    gas_limit = row.requested_gas_limit
    if gas_limit is None and attempts and attempts[-1].payload_version == row.payload_version:
        gas_limit = attempts[-1].gas_limit
    values = {"to": row.to, "value": row.value, "data": bytes(row.data), "gas_limit": gas_limit}
    return {name: value for name, value in values.items() if value not in ("", None)}
