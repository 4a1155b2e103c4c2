"""The state of the payment model: rows, signed bytes, what left, charges, the chain and what nodes claim."""

from __future__ import annotations

from typing import NamedTuple

NOOP = "-"
# A transaction of the account that somebody else signed, one that used the nonce without a signature (a deposit), and
# an entry that a lying node made up.
EXTERNAL, DEPOSIT, INVENTED = "X", "D", "?"
UNSIGNED = {DEPOSIT, INVENTED}
CLOSED = "CXF"
# Of a spending limit, in ticks.
WINDOW = 2

RULES = {
    "gate": "the gate reads the row at the broadcast: only what the row wants leaves",
    "proof": "a transaction is foreign only with a valid signature, a second node's word or staff's",
    "agreement": "a second nonce for a payload needs the second node, where there is one",
    "comparison": "`canceled` and `failed` are compared with the second node's answer",
    "believed_heads": "a head that is too high is not believed",
    "open_counts": "a charge in flight counts, however old its nonce is",
    "dated_when_mined": "a charge is dated when it is recorded as mined",
    "release_needs_agreement": "a charge is released or reduced only if the second node agrees, where there is one",
    "dated_when_final": "a charge is open until its row is final, and dated then, not when it is first mined",
    "dating_needs_agreement": "a charge is dated only if the second node agrees, where there is one",
    "missing_contradicts": "a node that is past the claimed block and has no receipt contradicts",
    "single_node_keeps": "on one node's word a charge is never released, only dated when its row is closed",
}


class Tx(NamedTuple):
    payload: str
    nonce: int

    @property
    def is_signed(self) -> bool:
        return self.payload not in UNSIGNED


class Charge(NamedTuple):
    amount: int
    # None: open.
    dated: int | None = None
    # When it got its nonce; only without the rules that need no such date.
    nonce_tick: int | None = None


class Row(NamedTuple):
    # p pending, s in flight, m mined, C confirmed, X canceled, F failed
    status: str
    charge: Charge
    nonce: int | None = None
    # "" none, "c" cancel, "r" replace
    action: str = ""
    expired: bool = False
    attempts: frozenset[Tx] = frozenset()
    mined: Tx | None = None

    def wanted(self, i: int) -> str:
        """Return the only payload that may leave: what is recorded now decides."""
        if self.status in CLOSED and self.mined is not None:
            return self.mined.payload
        if self.expired or self.action == "c":
            return NOOP
        return replacement(i) if self.action == "r" else original(i)


class Answer(NamedTuple):
    """What a node says used a nonce; without a transaction: a missing receipt."""

    tx: Tx | None
    final: bool
    true: bool
    # No answer, or that of a node that is behind.
    silent: bool = False


class PaymentState(NamedTuple):
    rows: tuple[Row | None, ...]
    next: int
    # Transactions, each with the tick in which it was mined.
    chain: tuple[tuple[Tx, int], ...]
    fin: int
    now: int
    # Bytes that left: each can be mined at any later moment.
    released: frozenset[Tx]
    # Whether bytes left that the row no longer wanted.
    left_late: bool
    # Whether the lane has stored a head that is too high.
    high: bool
    left: tuple[int, ...]


def original(i: int) -> str:
    return "AB"[i]


def replacement(i: int) -> str:
    return "ab"[i]


def show(tx: Tx | None) -> str:
    if tx is None:
        return "nothing"
    return f"{'no-op' if tx.payload == NOOP else tx.payload}@{tx.nonce}"


def put(s: PaymentState, i: int, row: Row) -> PaymentState:
    return s._replace(rows=(*s.rows[:i], row, *s.rows[i + 1 :]))


def mined_at(s: PaymentState, nonce: int) -> Tx | None:
    return s.chain[nonce][0] if nonce < len(s.chain) else None
