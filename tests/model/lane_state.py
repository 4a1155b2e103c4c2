"""The state of the lane model: one nonce lane, its rows, the chain and what went wrong."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

WINDOW = 2
NOOP = "-"
OPEN = "psm"
# The price of external transactions, which is above every other one.
EXTERNAL_PRICE = 9

RULES = {
    "owner_first": "adoption: the nonce's own row first, then only rows without a nonce",
    "any_lane": "the hold applies to every lane, not only to one that has sent",
    "seal": "after lost commits the lane seals its nonces with no-ops",
    "guard_close": "a pending row of a doubtful lane is not closed by API or sweep",
    "commit_checks": "the nonce commit re-checks hold and timeline",
    "held_bumps": "a held lane still bumps and cancels at nonces it has",
    "requeue_closes": "a row without a nonce but with a requested action is closed by the lane",
    "claims": "a request equal to an unclaimed transaction waits for staff",
    "epoch": "a new chain starts a new lane epoch",
    "keep_open": "after a deep reorg rows are kept, not failed",
    "final_depth": "a row with rival attempts closes at finality_depth",
    "wide_seal": "the seal goes one window further (reorg and failover together)",
    "signed_seal": "a reading, not a rule: the seal ends at the highest nonce that was ever signed",
    "reported_seal": "a reading, not a rule: the same, as far as mempools or a witness report it",
    "reasons": "a hold for counts does not hide a change of the timeline",
    "in_order": "nonces are identified in ascending order, lower rows are settled first",
    "no_replay": "rebroadcasts leave out what a replaced chain has closed",
    "early_external": "a reading, not a rule: a nonce is judged external at `latest`",
}


class Tx(NamedTuple):
    """A signed transaction. Signing is deterministic: the same content is the same hash.

    `origin` is "us" or "them"; no rule reads it.
    """

    payload: str
    nonce: int
    price: int
    origin: str

    @property
    def content(self) -> tuple[str, int, int]:
        return self.payload, self.nonce, self.price


class Row(NamedTuple):
    # p pending, s sent or submitted, m mined, C confirmed, X canceled, F failed
    status: str
    nonce: int | None
    # "" none, "c" cancel, "?" waits for staff, as an unclaimed transaction has its payload
    action: str
    attempts: frozenset[Tx]
    mined: Tx | None
    epoch: int


class Database(NamedTuple):
    rows: tuple[Row | None, ...]
    next: int | None
    # "" free, "count", "lost" or "chain"
    held: str
    known: frozenset[tuple[int, int]]
    # Found on the chain without a row.
    unclaimed: frozenset[Tx]
    # No-ops without a row.
    gaps: frozenset[Tx]
    target: int | None
    seen: int
    epoch: int
    lease: int
    anchor: int


class Plan(NamedTuple):
    """What a worker has signed and not yet committed."""

    position: int
    row: Row
    tx: Tx
    next: int


class LaneState(NamedTuple):
    db: Database
    timeline: int
    # Where the replica or the backup stops.
    snapshot: Database | None
    chain: tuple[Tx, ...]
    conf: int
    fin: int
    base: int
    extpool: Tx | None
    # Bytes that were ever committed: each can be mined at any later moment.
    released: frozenset[Tx]
    accepted: frozenset[int]
    anchor: int
    plans: tuple[Plan | None, ...]
    # How often each bounded event can still happen.
    left: tuple[int, ...]


class Base:
    """The parameters of a scenario, and what all parts of the model use."""

    def __init__(
        self,
        payloads: str,
        budgets: Mapping[str, int],
        rules: Collection[str] = (),
        workers: int = 1,
        split: bool = False,
        external_payloads: str = "X",
        two_depths: bool = False,
        detected: bool = True,
        dev_restart: bool = False,
        first_contact: bool = False,
    ) -> None:
        self.payloads, self.budgets = payloads, dict(budgets)
        self.names = sorted(self.budgets)
        self.rules = set(rules)
        self.workers, self.split = workers, split
        self.external_payloads, self.two_depths = external_payloads, two_depths
        self.detected, self.dev_restart = detected, dev_restart
        self.first_contact = first_contact

    def spend(self, s: LaneState, name: str) -> LaneState | None:
        """Return the state with one use of a bounded event taken, or None."""
        if name not in self.budgets:
            return None
        i = self.names.index(name)
        if not s.left[i]:
            return None
        return s._replace(left=(*s.left[:i], s.left[i] - 1, *s.left[i + 1 :]))

    def taken(self, db: Database) -> set[int]:
        """Return the nonces that the unique (lane, epoch, nonce) constraint refuses."""
        by_epoch = "epoch" in self.rules
        rows = {r.nonce for r in db.rows if r and r.nonce is not None and (not by_epoch or r.epoch == db.epoch)}
        return rows | {nonce for epoch, nonce in db.known if not by_epoch or epoch == db.epoch}

    def hashes(self, db: Database) -> set[tuple[str, int, int]]:
        """Return what the unique (chain id, epoch, hash) constraint refuses."""
        by_epoch = "epoch" in self.rules
        return {t.content for r in db.rows if r and (not by_epoch or r.epoch == db.epoch) for t in r.attempts}


def put(db: Database, i: int, row: Row) -> Database:
    return db._replace(rows=(*db.rows[:i], row, *db.rows[i + 1 :]))


def is_doubtful(s: LaneState) -> bool:
    return s.db.held != "" or s.db.seen != s.timeline


def pending_end(s: LaneState) -> int:
    """Return the count that a node reports for `pending`."""
    end, nonces = len(s.chain), {t.nonce for t in s.released}
    while end in nonces or (s.extpool and s.extpool.nonce == end):
        end += 1
    return end


def without_plan(s: LaneState, worker: int, plan: Plan | None = None) -> LaneState:
    """Return the state with the plan of a worker dropped or replaced."""
    return s._replace(plans=(*s.plans[:worker], plan, *s.plans[worker + 1 :]))


def name(i: int) -> str:
    return "ABC"[i]


def show(t: Tx) -> str:
    price = "" if t.price == EXTERNAL_PRICE else f" price {t.price}"
    return f"{'no-op' if t.payload == NOOP else t.payload}@{t.nonce}{price}"
