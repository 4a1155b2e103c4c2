"""The transitions between statuses: what causes each, when it is allowed, and who writes it.

`Changes.move` is the only writer of statuses, and refuses what is not in the table. docs/transactions.md shows it.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, cast

from transactions.models import IN_FLIGHT, NOOPS, OPEN, Attempt, Status, Transaction

Action, Kind = Transaction.Action, Transaction.Kind


class Cause(StrEnum):
    """Why a status changes, as the docs say it."""

    COMMITTED = "its nonce and signed bytes are committed"
    RECEIVED = "a node accepts it, or has it"
    MINED = "one of its attempts is in a block"
    REORGED = "a reorg removes its block"
    SUCCEEDED = "its payload succeeded, with enough confirmations"
    REVERTED = "its payload reverted, with enough confirmations"
    CANCELED = "it is canceled"
    EXPIRED = "it expires"
    REFUSED = "it can never be executed"
    NOOP_MINED = "its no-op is final"
    GAP_CLOSED = "the no-op for an unused nonce is final"
    NONCE_TAKEN = "another transaction used its nonce, in a final block"
    GAP_TAKEN = "another transaction used the nonce that it closes"
    ADOPTED = "its payload is found in a final block"
    FOUND = "a transaction of another program is found"
    CHAIN_REPLACED = "a development chain is started anew"


class Condition(NamedTuple):
    text: str
    # Whether a row, as it is with the columns that are written, may change its status now.
    holds: Callable[[Transaction, datetime], bool]


def _is_at_nonce(row: Transaction, attempt: Attempt | None) -> bool:
    return row.nonce is not None and attempt is not None and (attempt.nonce, attempt.epoch) == (row.nonce, row.epoch)


def _mined(row: Transaction, kind: Transaction.Kind = Kind.REQUEST) -> str:
    """Return the purpose of the attempt that was mined for a row of this kind, or ""."""
    attempt = row.mined_attempt if row.kind == kind and _is_at_nonce(row, row.mined_attempt) else None
    return attempt.purpose if attempt else ""


IN_TIME = Condition(
    "`valid_until` has not passed",
    lambda row, now: _is_at_nonce(row, row.last_attempt) and (row.kind != Kind.REQUEST or row.valid_until > now),
)
TOO_LATE = Condition(
    "it has no nonce, and `valid_until` has passed or its expiry is recorded",
    lambda row, now: row.nonce is None and (row.valid_until <= now or row.requested_action == Action.EXPIRE),
)
NO_NONCE = Condition("it has no nonce", lambda row, now: row.nonce is None)
NEWEST_AT_NONCE = Condition("its newest attempt has its nonce", lambda row, now: _is_at_nonce(row, row.last_attempt))
MINED_AT_NONCE = Condition("mined at its nonce", lambda row, now: _is_at_nonce(row, row.mined_attempt))
SUCCEEDED = Condition("mined at its nonce", lambda row, now: _mined(row) not in {"", *NOOPS} and row.succeeded is True)
REVERTED = Condition("mined at its nonce", lambda row, now: _mined(row) not in {"", *NOOPS} and row.succeeded is False)
NOOP = Condition("mined at its nonce", lambda row, now: _mined(row) in NOOPS)
KEPT = Condition("it keeps its nonce", lambda row, now: row.nonce is not None and row.mined_attempt is None)
QUEUED = Condition("a request, which loses its nonce", lambda row, now: row.kind == Kind.REQUEST and row.nonce is None)
GAP_LOST = Condition("no request; it loses its nonce", lambda row, now: row.kind == Kind.GAP and row.nonce is None)
GAP = Condition("no request; mined at its nonce", lambda row, now: _mined(row, Kind.GAP) != "")
EXTERNAL = Condition("no request; mined at its nonce", lambda row, now: _mined(row, Kind.EXTERNAL) != "")
SIGNED = Condition("it was signed for the former chain", lambda row, now: row.last_attempt is not None)


class Transition(NamedTuple):
    statuses: tuple[Status, ...]
    # The requested actions that allow it; "" is none.
    actions: tuple[str, ...]
    cause: Cause
    to: Status
    condition: Condition
    writer: str


WATCH = "chain watch"
ANY: tuple[str, ...] = ("", *Action)
REST = ("", Action.REPLACE, Action.SPEED_UP, Action.CLOSE)
PENDING, SENT, SUBMITTED, MINED = (Status.PENDING,), (Status.SENT,), (Status.SUBMITTED,), (Status.MINED,)
TRANSITIONS = (
    Transition(PENDING, ("",), Cause.COMMITTED, Status.SENT, IN_TIME, "lane"),
    Transition(PENDING, ANY, Cause.CANCELED, Status.CANCELED, NO_NONCE, "API, staff, lane"),
    Transition(PENDING, ("", Action.EXPIRE), Cause.EXPIRED, Status.EXPIRED, TOO_LATE, "lane"),
    Transition(PENDING, ("", Action.CLOSE), Cause.REFUSED, Status.FAILED, NO_NONCE, "lane"),
    Transition(PENDING, ANY, Cause.ADOPTED, Status.SUBMITTED, NEWEST_AT_NONCE, WATCH),
    Transition(PENDING, ANY, Cause.SUCCEEDED, Status.CONFIRMED, SUCCEEDED, "staff, who link it"),
    Transition(PENDING, ANY, Cause.REVERTED, Status.FAILED, REVERTED, "staff, who link it"),
    Transition(SENT, ANY, Cause.RECEIVED, Status.SUBMITTED, NEWEST_AT_NONCE, "whoever broadcast it"),
    Transition(IN_FLIGHT, ANY, Cause.MINED, Status.MINED, MINED_AT_NONCE, WATCH),
    Transition(IN_FLIGHT, ANY, Cause.NONCE_TAKEN, Status.PENDING, QUEUED, WATCH),
    Transition(IN_FLIGHT, ANY, Cause.GAP_TAKEN, Status.FAILED, GAP_LOST, WATCH),
    Transition(SUBMITTED, ("",), Cause.FOUND, Status.CONFIRMED, EXTERNAL, WATCH),
    Transition(MINED, ANY, Cause.REORGED, Status.SUBMITTED, KEPT, WATCH),
    Transition(MINED, ANY, Cause.SUCCEEDED, Status.CONFIRMED, SUCCEEDED, WATCH),
    Transition(MINED, ANY, Cause.REVERTED, Status.FAILED, REVERTED, WATCH),
    Transition(MINED, (Action.CANCEL,), Cause.NOOP_MINED, Status.CANCELED, NOOP, WATCH),
    Transition(MINED, (Action.EXPIRE,), Cause.NOOP_MINED, Status.EXPIRED, NOOP, WATCH),
    Transition(MINED, REST, Cause.NOOP_MINED, Status.FAILED, NOOP, WATCH),
    Transition(MINED, ANY, Cause.GAP_CLOSED, Status.CONFIRMED, GAP, WATCH),
    Transition(OPEN, ANY, Cause.CHAIN_REPLACED, Status.FAILED, SIGNED, "chain watch, staff"),
)
_TABLE = {(status, action, one.cause): one for one in TRANSITIONS for status in one.statuses for action in one.actions}


class InvalidTransition(Exception):
    """A status change that is not in the table, or whose condition does not hold: a mistake of the caller."""


class _After:
    """A row as it is with the columns that are written."""

    def __init__(self, row: Transaction, columns: Mapping[str, Any]) -> None:
        self._row, self._columns = row, columns

    def __getattr__(self, name: str) -> Any:
        return self._columns[name] if name in self._columns else getattr(self._row, name)


def target(row: Transaction, cause: Cause, columns: Mapping[str, Any], now: datetime) -> Status:
    """Return the status that a cause moves a row to, with the columns that are written; raise `InvalidTransition`."""
    found = _TABLE.get((Status(row.status), row.requested_action, cause))
    if found is None or not found.condition.holds(cast("Transaction", _After(row, columns)), now):
        raise InvalidTransition(f"{row.identifier} is {row.status} ({row.requested_action}), and {cause}")
    return found.to
