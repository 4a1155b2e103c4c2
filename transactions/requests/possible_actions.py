"""Which actions on a transaction are possible now, and what each can cost at most."""

from django.utils import timezone

from chain.limits import TRANSFER_GAS
from transactions.lanes import gate
from transactions.lanes.prices import pricing
from transactions.models import FINAL, Status, Transaction
from transactions.records.networks import network_of
from transactions.requests import accepting
from transactions.requests.replacement_prices import attempts_at_nonce

Action, Kind = Transaction.Action, Transaction.Kind
# Not an action of the lane: the bytes are signed already.
RESEND = "resend"

HELD = "The relayer is held: a transaction can be replaced when it is released."
NOT_SIGNED = "It is not signed yet."
WITHHELD = "It was canceled or replaced, or has expired: its bytes are not sent any more."
ENDING = {
    Action.CANCEL: "Its cancellation was requested already.",
    Action.EXPIRE: "It has expired, and a no-op takes its nonce.",
    Action.CLOSE: "No node accepts it, and a no-op takes its nonce.",
}


def refusal(row: Transaction, action: str) -> str:
    """Return why an action is not possible now, or "" if it is."""
    if row.status in FINAL:
        return f"Its status {row.status} is final."
    if row.status == Status.MINED:
        return f"It is mined, in block {row.block_number}."
    can_be_repeated = row.kind == Kind.GAP and action in {Action.SPEED_UP, RESEND}
    if row.kind != Kind.REQUEST and not can_be_repeated:
        return "It was not requested by a client: it only uses its nonce."
    if action == RESEND:
        return _bytes_refusal(row)
    if row.is_ending and (action != Action.CANCEL or row.requested_action == Action.CANCEL):
        return ENDING[Action(row.requested_action)]
    if action == Action.CANCEL:
        return ""
    if row.relayer is None or row.relayer.paused:
        return accepting.PAUSED
    return HELD if action == Action.REPLACE and row.lane.holds else ""


def _bytes_refusal(row: Transaction) -> str:
    if row.nonce is None or row.last_attempt is None:
        return NOT_SIGNED
    if not row.last_attempt.raw:
        return "It was found on the chain: its bytes are unknown."
    return "" if gate.may_leave(row, row.last_attempt, row.lane, timezone.now()) else WITHHELD


def maximum_cost(row: Transaction, action: str) -> int | None:
    """Return what a transaction can cost at most after an action, in wei; None if that is unknown.

    Whichever of its attempts is mined: without a nonce, a cancellation costs nothing.
    """
    if row.nonce is None:
        return 0 if action == Action.CANCEL else None
    attempts = attempts_at_nonce(row)
    if not attempts or row.relayer is None or action == Action.REPLACE:
        return None
    known = max(int(attempt.max_cost_text) for attempt in attempts)
    if action == RESEND:
        return known
    last, network, policies = attempts[-1], network_of(row.relayer), row.relayer.policies
    if action == Action.CANCEL:
        highest = pricing.highest(attempts)
        minimum = pricing.bumped(pricing.maximum(highest)) if highest else 0
        ceiling = pricing.policy_ceiling(network, policies, is_noop=True).price
        return max(known, max(TRANSFER_GAS, last.gas_limit) * max(ceiling, minimum))
    ceiling = pricing.policy_ceiling(network, policies).price
    price = pricing.highest([last])
    rise = max(0, ceiling - (pricing.maximum(price) if price else 0))
    return max(known, int(last.max_cost_text) + last.gas_limit * rise)
