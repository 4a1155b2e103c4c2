"""The lane model: how a lane settles its rows, identifies what it finds and recovers from lost commits.

Bytes are free from the commit on, which covers late delivery by a stale process, an unknown broadcast, eviction
followed by gossip, and a commit that was lost after the bytes had left. A commit with an unknown outcome is
"committed" or "crashed before commit", since the worker forgets everything in either case. Readings may be one block
old; a missing receipt is the same as not acting. Executions of identical payloads are interchangeable, so the
invariants count by payload.
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.model.lane_sending import Sending
from tests.model.lane_state import NOOP, OPEN, WINDOW, Database, LaneState, Row, Tx, name, pending_end, put, show
from tests.model.lane_world import LaneSteps

WORDS = {"C": "confirmed", "X": "canceled", "F": "failed"}


class LaneModel(Sending):
    def start(self) -> LaneState:
        rows: tuple[Row | None, ...] = (None,) * len(self.payloads)
        first = None if self.first_contact else 0
        db = Database(rows, first, "", frozenset(), frozenset(), frozenset(), None, 0, 0, 0, 0)
        left = tuple(self.budgets[name] for name in self.names)
        plans = (None,) * self.workers
        return LaneState(db, 0, None, (), 0, 0, 0, None, frozenset(), frozenset(), 0, plans, left)

    def steps(self, state: LaneState) -> LaneSteps:
        yield from self.environment(state)
        yield from self.callers(state)
        yield from self.pipeline(state)
        yield from self.watch(state)

    def watch(self, s: LaneState) -> LaneSteps:
        db = s.db
        if db.anchor != s.anchor:
            if db.held != "chain":
                yield "watch: anchor changed, lane holds", s._replace(db=db._replace(held="chain")), True
            else:
                yield from self.new_chain(s)
        elif db.next is None:
            for count, honest in self.counts(s):
                yield f"first contact: next_nonce = {count}", s._replace(db=db._replace(next=count)), honest
        else:
            for i, row in enumerate(db.rows):
                if row and row.nonce is not None and row.epoch == db.epoch:
                    yield from self.settle(s, i, row, row.nonce)
            yield from self.fill_gap(s)
            yield from self.watch_lane(s, db.next)

    def settle(self, s: LaneState, i: int, row: Row, nonce: int) -> LaneSteps:
        on_chain = s.chain[nonce] if nonce < len(s.chain) else None

        def changed(**fields: object) -> LaneState:
            return s._replace(db=put(s.db, i, row._replace(**fields)))  # type: ignore[arg-type]  # fields of a row

        if row.status == "s" and on_chain in row.attempts:
            assert on_chain is not None
            yield f"watch: {name(i)} mined by {show(on_chain)}", changed(status="m", mined=on_chain), True
        if row.status == "m" and on_chain != row.mined:
            yield f"watch: {name(i)} reorganised, submitted again", changed(status="s", mined=None), True
        if row.status == "m" and on_chain == row.mined:
            assert row.mined is not None
            rival = len({t.payload for t in row.attempts}) > 1
            depth = s.fin if "final_depth" in self.rules and rival else s.conf
            if nonce < depth:
                end = "X" if row.mined.payload == NOOP else "C"
                yield f"watch: {name(i)} {WORDS[end]}", changed(status=end, action=""), True
        if row.status == "s" and nonce < s.fin and on_chain not in row.attempts:
            assert on_chain is not None
            yield from self.consumed(s, i, row, on_chain)

    def fill_gap(self, s: LaneState) -> LaneSteps:
        """Fill a hole below rows in flight, and bump the no-op that does."""
        db, n = s.db, len(s.chain)
        in_flight = [r for r in db.rows if r and r.status == "s" and r.nonce is not None and r.epoch == db.epoch]
        above = any((r.nonce or 0) > n for r in in_flight)
        tx = Tx(NOOP, n, s.base, "us")
        released = s._replace(db=db._replace(gaps=db.gaps | {tx}), released=s.released | {tx})
        if above and n not in self.taken(db) and not db.held:
            known = released.db._replace(known=db.known | {(db.epoch, n)})
            yield f"lane fills the gap with {show(tx)}", released._replace(db=known), True
        prices = [gap.price for gap in db.gaps if gap.nonce == n]
        if prices and max(prices) < s.base:
            yield f"lane bumps the no-op to {show(tx)}", released, True

    def watch_lane(self, s: LaneState, next_nonce: int) -> LaneSteps:
        db = s.db
        if not db.held:
            yield from self.hold(s, next_nonce)
        elif db.held == "count" and db.seen != s.timeline and "reasons" in self.rules:
            held = db._replace(held="lost", target=None)
            yield "watch: timeline changed, lane is held for lost commits", s._replace(db=held), True
        elif db.held in ("lost", "count"):
            if next_nonce < (len(s.chain) if "early_external" in self.rules else s.fin):
                yield from self.identify(s, next_nonce)
            if db.held == "lost" and "seal" in self.rules:
                yield from self.sealing(s, next_nonce)
                return
            # The counts agree: nothing (more) to identify.
            for count, honest in self.counts(s):
                is_mempool_clear = s.extpool is None or s.extpool.nonce < next_nonce
                if count <= next_nonce and is_mempool_clear:
                    free = db._replace(held="", seen=s.timeline)
                    yield "watch: counts equal next_nonce, lane released", s._replace(db=free), honest

    def hold(self, s: LaneState, next_nonce: int) -> LaneSteps:
        db = s.db
        has_sent = any(r and r.attempts for r in db.rows) or next_nonce
        if db.seen != s.timeline:
            held = db._replace(held="lost", target=None)
            yield "watch: timeline changed, lane holds", s._replace(db=held), True
        elif len(s.chain) > next_nonce and (has_sent or "any_lane" in self.rules):
            yield "watch: latest > next_nonce, lane holds", s._replace(db=db._replace(held="count")), True
        elif len(s.chain) > next_nonce:
            moved = db._replace(next=len(s.chain))
            yield f"lane has not sent: next_nonce = {len(s.chain)}", s._replace(db=moved), True
        elif pending_end(s) > next_nonce and has_sent:
            held = db._replace(held="count")
            yield "watch: pending > next_nonce, lane holds", s._replace(db=held), s.extpool is not None

    def consumed(self, s: LaneState, i: int, row: Row, tx: Tx) -> LaneSteps:
        """The nonce of row i is final and none of the row's attempts used it."""
        if tx.payload == self.payloads[i] and "owner_first" in self.rules:
            adopted = row._replace(attempts=row.attempts | {tx}, mined=tx, status="m")
            yield f"watch: {name(i)} adopts {show(tx)}", s._replace(db=put(s.db, i, adopted)), True
            return
        db, word = self.assign(put(s.db, i, row._replace(status="p", nonce=None, mined=None)), tx)
        yield f"watch: {name(i)} loses its nonce to {show(tx)} ({word}), queued again", s._replace(db=db), True

    def assign(self, db: Database, tx: Tx) -> tuple[Database, str]:
        """Adoption: return who owns this transaction of the account, the oldest row first."""
        for i, row in enumerate(db.rows):
            if row is None or row.status not in OPEN or self.payloads[i] != tx.payload:
                continue
            if "owner_first" in self.rules and row.nonce is not None:
                continue
            adopted = row._replace(
                status="s", nonce=tx.nonce, attempts=row.attempts | {tx}, mined=None, epoch=db.epoch
            )
            if row.action == "?":
                adopted = adopted._replace(action="")
            return put(db, i, adopted), f"adopted by {name(i)}"
        db = db._replace(known=db.known | {(db.epoch, tx.nonce)})
        if tx.payload != NOOP:
            db = db._replace(unclaimed=db.unclaimed | {tx})
        return db, "external"

    def identify(self, s: LaneState, next_nonce: int) -> LaneSteps:
        tx = s.chain[next_nonce]
        if "in_order" in self.rules and any(is_unsettled_below(s, row, tx.nonce) for row in s.db.rows):
            return
        if tx.nonce in self.taken(s.db):
            yield f"nonce {tx.nonce} is known", s._replace(db=s.db._replace(next=tx.nonce + 1)), True
            return
        db, word = self.assign(s.db, tx)
        yield f"watch: {show(tx)} {word}", s._replace(db=db._replace(next=tx.nonce + 1)), True

    def sealing(self, s: LaneState, next_nonce: int) -> LaneSteps:
        db = s.db
        if db.target is None:
            # The count in a final block newer than the failover.
            if s.fin == len(s.chain):
                for target in self.seal_ends(s, max(s.fin, next_nonce)):
                    yield f"seal up to nonce {target}", s._replace(db=db._replace(target=target)), True
            return
        if next_nonce >= db.target:
            free = db._replace(held="", seen=s.timeline, target=None)
            yield "sealed, lane released", s._replace(db=free), True
            return
        if next_nonce == len(s.chain) and not any(gap.nonce == next_nonce for gap in db.gaps):
            tx = Tx(NOOP, next_nonce, s.base, "us")
            sealed = s._replace(db=db._replace(gaps=db.gaps | {tx}), released=s.released | {tx})
            yield f"lane signs a sealing no-op {show(tx)}", sealed, True

    def seal_ends(self, s: LaneState, known: int) -> Iterable[int]:
        signed = max([known, *(t.nonce + 1 for t in s.released)])
        if "reported_seal" in self.rules:
            # Mempools drop transactions, and a witness may have lost its last writes as well.
            return range(known, signed + 1)
        if "signed_seal" in self.rules:
            return [signed]
        return [known + WINDOW * (2 if "wide_seal" in self.rules else 1)]

    def new_chain(self, s: LaneState) -> LaneSteps:
        db = s.db
        if "keep_open" in self.rules and not self.dev_restart:
            kept = tuple(r._replace(status="s", mined=None) if r and r.status == "m" else r for r in db.rows)
            free = db._replace(rows=kept, held="", anchor=s.anchor)
            yield "deep reorg: rows kept, rebroadcast", s._replace(db=free), True
            return
        rows = tuple(r._replace(status="F", action="") if r and r.status in OPEN else r for r in db.rows)
        new = db._replace(rows=rows, held="", anchor=s.anchor, next=len(s.chain))
        released = s.released
        if "epoch" in self.rules:
            new = new._replace(epoch=db.epoch + 1)
        elif "no_replay" not in self.rules:
            released |= {t for r in rows if r for t in r.attempts}
        label = "release --new-chain: open rows failed, restart at the chain's nonce"
        yield label, s._replace(db=new, released=released), True

    def broken(self, state: LaneState) -> str | None:
        """Return the invariant among I1, I2, I3 and I5 that a state violates."""
        found = (self.executed_wrongly(state, payload) for payload in sorted(set(self.payloads)))
        return next(filter(None, found), None) or self.shared_nonce(state) or self.unknown_transaction(state)

    def executed_wrongly(self, s: LaneState, payload: str) -> str | None:
        rows = {i: s.db.rows[i] for i, other in enumerate(self.payloads) if other == payload}
        asked = sum(i in s.accepted for i in rows)
        ran = sum(t.payload == payload and t.origin == "us" for t in s.chain)
        if ran > asked:
            return f"I1: payload {payload} ran {ran} times for {asked} request(s)"
        dead = [i for i, row in rows.items() if row and row.status in "XF"]
        if ran > asked - len(dead):
            return f"I2: {', '.join(map(name, dead))} is closed as not executed, but ran"
        # Judged on the final chain; a replaced chain says otherwise.
        for i, row in rows.items():
            nonce = row.nonce if row and row.status == "C" and not s.anchor else None
            if nonce is not None and nonce < s.fin and s.chain[nonce].payload != payload:
                return f"I2: {name(i)} is confirmed, but not executed"
        return None

    def shared_nonce(self, s: LaneState) -> str | None:
        nonces = [(r.epoch, r.nonce) for r in s.db.rows if r and r.nonce is not None] + list(s.db.known)
        is_judged = "epoch" in self.rules or not s.anchor
        return "I3: two rows share a nonce" if is_judged and len(nonces) != len(set(nonces)) else None

    def unknown_transaction(self, s: LaneState) -> str | None:
        if s.anchor or not s.db.next == len(s.chain) == s.fin or not self.at_rest(s):
            return None
        owned = {t for r in s.db.rows if r for t in r.attempts}
        for t in s.chain:
            if t not in owned and (s.db.epoch, t.nonce) not in s.db.known and t.origin == "us":
                return f"I5: {show(t)} is on the chain and unknown"
        return None

    def at_rest(self, state: LaneState) -> bool:
        db = state.db
        rows = [db.rows[i] for i in state.accepted]
        is_free = not db.held and db.seen == state.timeline and db.anchor == state.anchor
        return is_free and all(row is not None and row.status in "CXF" for row in rows)


def is_unsettled_below(s: LaneState, row: Row | None, nonce: int) -> bool:
    if row is None or row.nonce is None or row.nonce >= nonce:
        return False
    return row.status == "s" or (row.status == "m" and s.chain[row.nonce] != row.mined)
