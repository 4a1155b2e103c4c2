"""How a lane plans, signs and commits."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.lane_state import NOOP, WINDOW, LaneState, Plan, Row, Tx, is_doubtful, name, put, show, without_plan
from tests.model.lane_world import LaneSteps, World


class Sending(World):
    def pipeline(self, s: LaneState) -> LaneSteps:
        db = s.db
        for worker in range(self.workers):
            planned = s.plans[worker]
            if self.workers > 1 and db.lease != worker:
                yield f"worker {worker} takes the lease", s._replace(db=db._replace(lease=worker)), True
                if planned:
                    yield f"worker {worker}: commit refused, lease lost", without_plan(s, worker), True
                continue
            if planned:
                yield from self.commit(without_plan(s, worker), worker, planned)
                continue
            for plan, honest in self.plans(s):
                if self.split:
                    yield f"worker {worker} plans and signs {show(plan.tx)}", without_plan(s, worker, plan), honest
                else:
                    for label, t, good in self.commit(s, worker, plan):
                        yield label, t, good and honest

    def counts(self, s: LaneState) -> Iterator[tuple[int, bool]]:
        """Yield the counts that a node reports for `latest`, each with whether it is current."""
        yield len(s.chain), True
        if s.chain and len(s.chain) > s.fin and "stale" in self.budgets:
            yield len(s.chain) - 1, False

    def plans(self, s: LaneState) -> Iterator[tuple[Plan, bool]]:
        """Yield what a worker may sign, each with whether its reading is current."""
        if s.db.next is None or s.db.held == "chain":
            return
        for count, honest in self.counts(s):
            for i, row in enumerate(s.db.rows):
                tx = row and self.next_attempt(s, i, row, count)
                if row and tx:
                    yield Plan(i, row, tx, s.db.next), honest

    def next_attempt(self, s: LaneState, i: int, row: Row, count: int) -> Tx | None:
        db = s.db
        assert db.next is not None, "planned after the first contact"
        if row.status == "p" and row.action == "" and not is_doubtful(s) and db.anchor == s.anchor:
            return Tx(self.payloads[i], db.next, s.base, "us") if count <= db.next < count + WINDOW else None
        if row.status != "s" or row.nonce is None or row.nonce < count:
            return None
        if db.held and "held_bumps" not in self.rules:
            return None
        top = max(t.price for t in row.attempts)
        if row.action == "c" and not any(t.payload == NOOP for t in row.attempts):
            return Tx(NOOP, row.nonce, top + 1, "us")
        if top < s.base or (top == 0 and "bump" in self.budgets):
            last = max(row.attempts, key=lambda t: t.price).payload
            return Tx(last, row.nonce, top + 1, "us")
        return None

    def commit(self, s: LaneState, worker: int, plan: Plan) -> LaneSteps:
        db, row, tx = s.db, plan.row, plan.tx
        if not self.may_commit(s, plan):
            if self.split:
                yield f"worker {worker}: commit of {show(tx)} refused", s, True
            return
        db = put(
            db,
            plan.position,
            row._replace(status="s", nonce=tx.nonce, attempts=row.attempts | {tx}, epoch=db.epoch),
        )
        if row.status == "p":
            db = db._replace(next=tx.nonce + 1)
        label = f"worker {worker} commits {show(tx)} for {name(plan.position)}, broadcast open"
        yield label, s._replace(db=db, released=s.released | {tx}), True

    def may_commit(self, s: LaneState, plan: Plan) -> bool:
        db, tx, first = s.db, plan.tx, plan.row.status == "p"
        if db.rows[plan.position] != plan.row or (first and db.next != plan.next):
            return False
        if "commit_checks" in self.rules and first and is_doubtful(s):
            return False
        # The unique constraints.
        return not (first and tx.nonce in self.taken(db)) and tx.content not in self.hashes(db)
