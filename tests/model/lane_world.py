"""What happens to a lane from outside: the chain, other senders, failovers, crashes and callers."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.lane_state import (
    EXTERNAL_PRICE,
    Base,
    LaneState,
    Row,
    Tx,
    is_doubtful,
    name,
    pending_end,
    put,
    show,
    without_plan,
)
from tests.model.search import Step

LaneSteps = Iterator[Step[LaneState]]


class World(Base):
    def environment(self, s: LaneState) -> LaneSteps:
        yield from self.mining(s)
        yield from self.depths(s)
        yield from self.reorgs(s)
        yield from self.market(s)
        yield from self.other_senders(s)
        yield from self.losses(s)

    def mining(self, s: LaneState) -> LaneSteps:
        db, n = s.db, len(s.chain)
        ours = {t for r in db.rows if r and r.epoch == db.epoch for t in r.attempts} | db.gaps
        for t in s.released:
            if t.nonce == n and t.price >= s.base:
                yield f"chain mines {show(t)}", s._replace(chain=(*s.chain, t)), t in ours
        if s.extpool and s.extpool.nonce == n:
            yield "chain mines the external one", s._replace(chain=(*s.chain, s.extpool), extpool=None), True
        if s.extpool and s.extpool.nonce < n:
            yield "external one is gone", s._replace(extpool=None), True

    def depths(self, s: LaneState) -> LaneSteps:
        n = len(s.chain)
        if s.conf < n and self.two_depths:
            yield "depth `confirmations` reached", s._replace(conf=n), True
        elif s.conf < n:
            yield "blocks become final", s._replace(conf=n, fin=n), True
        if self.two_depths and s.fin < s.conf:
            yield "blocks become final", s._replace(fin=s.conf), True

    def reorgs(self, s: LaneState) -> LaneSteps:
        n = len(s.chain)
        if n > s.conf and (t := self.spend(s, "reorg")):
            yield "reorg of the last block", t._replace(chain=s.chain[:-1]), False
        if n > s.fin and s.conf > s.fin and (t := self.spend(s, "midreorg")):
            reorged = t._replace(chain=s.chain[: s.fin], conf=s.fin)
            yield "reorg deeper than `confirmations`, above finality", reorged, False
        if s.chain and (t := self.spend(s, "replace")):
            t = t._replace(chain=(), conf=0, fin=0, anchor=s.anchor + 1, extpool=None)
            if self.dev_restart:
                t = t._replace(released=frozenset())
            yield "chain is replaced", t, False

    def market(self, s: LaneState) -> LaneSteps:
        if s.base == 0 and (t := self.spend(s, "basefee")):
            yield "base fee rises above price 0", t._replace(base=1), False

    def other_senders(self, s: LaneState) -> LaneSteps:
        n = len(s.chain)
        if t := self.spend(s, "external"):
            for p in self.external_payloads:
                mined = Tx(p, n, EXTERNAL_PRICE, "them")
                yield f"external sender mines {p}@{n}", t._replace(chain=(*s.chain, mined)), False
        if s.extpool is None and (t := self.spend(s, "extpool")):
            waiting = Tx("X", pending_end(s), EXTERNAL_PRICE, "them")
            yield f"external sender has {show(waiting)} in the mempool", t._replace(extpool=waiting), False

    def losses(self, s: LaneState) -> LaneSteps:
        if t := self.spend(s, "snapshot"):
            yield "replica (backup) stops here", t._replace(snapshot=s.db), False
        if s.snapshot is not None and (t := self.spend(s, "failover")):
            lost = t._replace(db=s.snapshot, snapshot=None, timeline=s.timeline + self.detected)
            yield "failover: commits since then are lost", lost, False
        for worker, plan in enumerate(s.plans):
            if plan and (t := self.spend(s, "crash")):
                yield f"worker {worker} crashes", without_plan(t, worker), False

    def callers(self, s: LaneState) -> LaneSteps:
        for i in range(len(self.payloads)):
            row = s.db.rows[i]
            if row is None:
                yield from self.accept(s, i)
                continue
            if row.action == "?":
                yield from self.decide(s, i, row)
            yield from self.cancel(s, i, row)

    def accept(self, s: LaneState, i: int) -> LaneSteps:
        if not all(j in s.accepted for j in range(i)):
            return
        payload = self.payloads[i]
        action = "?" if "claims" in self.rules and any(t.payload == payload for t in s.db.unclaimed) else ""
        row = Row("p", None, action, frozenset(), None, s.db.epoch)
        label = f"{'caller retries' if i in s.accepted else 'accept'} {name(i)} (payload {payload})"
        yield label, s._replace(db=put(s.db, i, row), accepted=s.accepted | {i}), i in s.accepted

    def decide(self, s: LaneState, i: int, row: Row) -> LaneSteps:
        """Staff know the truth: they claim a transaction for a row, or let the row go."""
        db = s.db
        claims = [t for t in db.unclaimed if t.payload == self.payloads[i] and t.origin == "us"]
        if not claims:
            yield f"staff: {name(i)} is a new one", s._replace(db=put(db, i, row._replace(action=""))), True
            return
        tx = claims[0]
        known = db._replace(unclaimed=db.unclaimed - {tx}, known=db.known - {(db.epoch, tx.nonce)})
        claimed = row._replace(status="C", nonce=tx.nonce, action="", attempts=frozenset([tx]), mined=tx)
        yield f"staff: {name(i)} claims {show(tx)}", s._replace(db=put(known, i, claimed)), True

    def cancel(self, s: LaneState, i: int, row: Row) -> LaneSteps:
        db = s.db
        requested, closed = row._replace(action="c"), row._replace(status="X", action="")
        if row.action == "" and (t := self.spend(s, "cancel")):
            if row.status == "p" and "guard_close" in self.rules and is_doubtful(s):
                yield f"cancel {name(i)}: noted", t._replace(db=put(db, i, requested)), False
            elif row.status == "p":
                yield f"cancel {name(i)}: canceled at once", t._replace(db=put(db, i, closed)), False
            elif row.status == "s":
                yield f"cancel {name(i)}: requested", t._replace(db=put(db, i, requested)), False
        may_close = row.status == "p" and row.action == "c" and not is_doubtful(s)
        if may_close and "requeue_closes" in self.rules:
            yield f"{name(i)} has no nonce and is canceled", s._replace(db=put(db, i, closed)), True
