"""The payment model: what may leave, what is charged, and what is believed of nodes that lie.

A commit releases nothing: bytes are free from the broadcast on, and a worker can crash between the two, as the next
one broadcasts from the rows alone. Prices, base fees and stale counts are those of the lane model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from tests.model.payment_nodes import HONEST, LIAR, answers
from tests.model.payment_state import (
    CLOSED,
    DEPOSIT,
    EXTERNAL,
    NOOP,
    WINDOW,
    Answer,
    Charge,
    PaymentState,
    Row,
    Tx,
    mined_at,
    original,
    put,
    replacement,
    show,
)
from tests.model.search import Step

PaymentSteps = Iterator[Step[PaymentState]]
# How many rows can get a second nonce, so that the search ends without the rules that prevent it.
SECOND_NONCES = 2
ENDS = {"C": "confirmed", "X": "canceled", "F": "failed (expired)"}


class PaymentModel:
    def __init__(
        self,
        requests: int,
        budgets: Mapping[str, int],
        rules: Collection[str] = (),
        nodes: Collection[str] = (HONEST,),
        lies: Collection[str] = (),
        values: Mapping[str, int] | None = None,
        limit: int | None = None,
        ticks: int = 0,
        judged: str = "I1 I2 I4 I6 I7",
    ) -> None:
        self.requests, self.budgets = requests, dict(budgets)
        self.names = sorted(self.budgets)
        self.rules, self.nodes, self.lies = set(rules), tuple(nodes), set(lies)
        self.values = {"A": 1, "a": 1, "B": 1, "b": 1} | dict(values or {}) | {NOOP: 0}
        self.limit, self.ticks = limit, ticks
        self.judged = set(judged.split())

    def start(self) -> PaymentState:
        left = tuple(self.budgets[name] for name in self.names)
        return PaymentState((None,) * self.requests, 0, (), 0, 0, frozenset(), False, False, left)

    def steps(self, state: PaymentState) -> PaymentSteps:
        yield from self.environment(state)
        for i, row in enumerate(state.rows):
            if row is None:
                yield from self.accept(state, i)
                break
            yield from self.request_action(state, i, row)
            yield from self.send(state, i, row)
            if row.nonce is not None:
                yield from self.watch(state, i, row, row.nonce)

    def spend(self, s: PaymentState, name: str) -> PaymentState | None:
        """Return the state with one use of a bounded event taken, or None."""
        if name not in self.budgets:
            return None
        i = self.names.index(name)
        if not s.left[i]:
            return None
        return s._replace(left=(*s.left[:i], s.left[i] - 1, *s.left[i + 1 :]))

    def environment(self, s: PaymentState) -> PaymentSteps:
        n = len(s.chain)
        for tx in sorted(s.released):
            if tx.nonce == n:
                yield f"chain mines {show(tx)}", s._replace(chain=(*s.chain, (tx, s.now))), True
        if s.fin < n:
            yield "blocks become final", s._replace(fin=n), True
        if s.fin < n and (t := self.spend(s, "reorg")):
            yield "reorg of the last block", t._replace(chain=s.chain[:-1]), False
        if s.now < self.ticks:
            yield f"tick {s.now + 1}", s._replace(now=s.now + 1), False
        for event, payload in (("external", EXTERNAL), ("deposit", DEPOSIT)):
            if n < s.next and (t := self.spend(s, event)):
                used = Tx(payload, n)
                yield f"somebody else uses the nonce: {show(used)}", t._replace(chain=(*s.chain, (used, s.now))), False
        if LIAR in self.nodes and "head" in self.lies and "believed_heads" not in self.rules and not s.high:
            yield "liar reports a head that is too high", s._replace(high=True), False

    # Callers.

    def accept(self, s: PaymentState, i: int) -> PaymentSteps:
        row = Row("p", Charge(self.values[original(i)] if self.limit is not None else 0))
        if self.is_within_limit(s, i, row.charge.amount):
            yield f"accept {original(i)}", put(s, i, row), False

    def request_action(self, s: PaymentState, i: int, row: Row) -> PaymentSteps:
        if row.status not in "ps" or row.expired:
            return
        if row.action != "c" and (t := self.spend(s, "cancel")):
            yield f"cancel {original(i)} recorded", put(t, i, row._replace(action="c")), False
        amount = max(row.charge.amount, self.values[replacement(i)] if self.limit is not None else 0)
        if not row.action and self.is_within_limit(s, i, amount) and (t := self.spend(s, "replace")):
            replaced = row._replace(action="r", charge=row.charge._replace(amount=amount))
            yield f"replacement of {original(i)} by {replacement(i)} recorded", put(t, i, replaced), False
        if t := self.spend(s, "expire"):
            yield f"valid_until of {original(i)} passes", put(t, i, row._replace(expired=True)), False

    def is_within_limit(self, s: PaymentState, i: int, amount: int) -> bool:
        if self.limit is None:
            return True
        others = [row.charge for j, row in enumerate(s.rows) if row and j != i]
        return amount + sum(charge.amount for charge in others if self.is_counted(charge, s.now)) <= self.limit

    def is_counted(self, charge: Charge, now: int) -> bool:
        if charge.dated is not None:
            return now < charge.dated + WINDOW
        return "open_counts" in self.rules or charge.nonce_tick is None or now < charge.nonce_tick + WINDOW

    # A turn: close, sign and commit, broadcast.

    def send(self, s: PaymentState, i: int, row: Row) -> PaymentSteps:
        wanted = row.wanted(i)
        if row.status == "p" and wanted == NOOP:
            yield f"{original(i)} has no nonce and is closed", put(s, i, self.closed_without_nonce(s, row)), True
        elif row.status == "p" and s.next < self.requests + SECOND_NONCES:
            tx = Tx(wanted, s.next)
            charge = row.charge
            if not {"open_counts", "dated_when_mined"} <= self.rules:
                charge = charge._replace(nonce_tick=s.now)
            sent = row._replace(status="s", nonce=tx.nonce, attempts=row.attempts | {tx}, charge=charge)
            yield f"commit {show(tx)}", put(s, i, sent)._replace(next=s.next + 1), True
        elif row.status == "s" and row.nonce is not None:
            tx = Tx(wanted, row.nonce)
            if tx not in row.attempts:
                yield f"commit {show(tx)}", put(s, i, row._replace(attempts=row.attempts | {tx})), True
            yield from self.broadcast(s, row, wanted)
        elif row.status in CLOSED and row.nonce is not None and row.nonce >= len(s.chain):
            # By the chain's count nothing used the nonce: what is behind it would wait for ever.
            yield from self.broadcast(s, row, wanted)

    def broadcast(self, s: PaymentState, row: Row, wanted: str) -> PaymentSteps:
        for tx in sorted(row.attempts):
            is_wanted = tx.payload == wanted
            if tx.nonce == row.nonce and (is_wanted or "gate" not in self.rules):
                left_late = s.left_late or not is_wanted
                yield f"broadcast {show(tx)}", s._replace(released=s.released | {tx}, left_late=left_late), True

    def closed_without_nonce(self, s: PaymentState, row: Row) -> Row:
        charge = row.charge._replace(amount=0)
        if row.attempts and self.keeps_charges:
            charge = row.charge._replace(dated=s.now)
        return row._replace(status="X" if row.action == "c" else "F", charge=charge)

    @property
    def keeps_charges(self) -> bool:
        return len(self.nodes) == 1 and "single_node_keeps" in self.rules

    # What nodes answer.

    def watch(self, s: PaymentState, i: int, row: Row, nonce: int) -> PaymentSteps:
        for position, node in enumerate(self.nodes):
            others = [other for index, other in enumerate(self.nodes) if index != position]
            for first in answers(s, node, self.lies, row, nonce):
                if first.silent:
                    continue
                seconds = answers(s, others[0], self.lies, row, nonce) if others else [None]
                for second in seconds:
                    good = first.true and (second is None or second.true)
                    for label, after in self.believe(s, i, row, first, second):
                        yield f"{node} says {show(first.tx)}: {label}", put(s, i, after), good
        if row.status == "s" and nonce < s.fin and len(self.nodes) == 1 and is_unsigned(mined_at(s, nonce)):
            yield f"staff: {original(i)} is queued again", put(s, i, requeued(row)), True

    def believe(
        self, s: PaymentState, i: int, row: Row, first: Answer, second: Answer | None
    ) -> Iterator[tuple[str, Row]]:
        if row.status == "s" and first.tx in row.attempts:
            mined = row._replace(status="m", mined=first.tx)
            if "dated_when_final" not in self.rules:
                mined = self.dated(mined, s.now, first, second)
            yield f"{original(i)} is mined", mined
        elif row.status == "s" and first.tx and first.final and self.is_foreign(first, second):
            yield f"{original(i)} is queued again", requeued(row)
        elif row.status == "m" and first.tx != row.mined:
            yield f"{original(i)} is submitted again", row._replace(status="s", mined=None)
        elif row.status == "m" and first.final:
            yield from self.close(s, i, row, first, second)
        elif row.status in CLOSED and first.tx == row.mined:
            yield from self.settle_charge(s, i, row, first, second)

    def dated(self, row: Row, now: int, first: Answer, second: Answer | None) -> Row:
        """Return a mined row with the date of its charge; what a no-op may release stays open."""
        charge = row.charge
        if charge.amount == 0 or charge.dated is not None or row.mined is None or row.mined.payload == NOOP:
            return row
        if "dating_needs_agreement" in self.rules and second is not None and second.tx != first.tx:
            return row
        tick = now if "dated_when_mined" in self.rules else charge.nonce_tick
        return row._replace(charge=charge._replace(dated=tick))

    def is_foreign(self, first: Answer, second: Answer | None) -> bool:
        assert first.tx is not None
        agreed = second is not None and second.tx == first.tx and second.final
        if "proof" in self.rules and not first.tx.is_signed and not agreed:
            return False
        return agreed or second is None or "agreement" not in self.rules

    def close(
        self, s: PaymentState, i: int, row: Row, first: Answer, second: Answer | None
    ) -> Iterator[tuple[str, Row]]:
        assert row.mined is not None
        end = "C" if row.mined.payload != NOOP else "X" if row.action == "c" else "F"
        if end != "C" and "comparison" in self.rules and self.is_contradicted(first, second):
            return
        closed = row._replace(status=end)
        yield f"{original(i)} is {ENDS[end]}", self.charged_finally(s, closed, first, second)

    def is_contradicted(self, first: Answer, second: Answer | None) -> bool:
        if second is None or second.silent or second.tx == first.tx:
            return False
        return second.tx is not None or "missing_contradicts" in self.rules

    def charged_finally(self, s: PaymentState, row: Row, first: Answer, second: Answer | None) -> Row:
        """Return a closed row with a charge of what was executed, if that may be believed."""
        assert row.mined is not None
        amount = self.values[row.mined.payload]
        row = self.dated(row, s.now, first, second)
        charge = row.charge
        agreed = second is not None and second.final and second.tx == row.mined
        if charge.amount <= amount:
            return row
        if self.keeps_charges:
            return row._replace(charge=charge._replace(dated=s.now if charge.dated is None else charge.dated))
        if second is not None and not agreed and "release_needs_agreement" in self.rules:
            return row
        return row._replace(charge=charge._replace(amount=amount))

    def settle_charge(
        self, s: PaymentState, i: int, row: Row, first: Answer, second: Answer | None
    ) -> Iterator[tuple[str, Row]]:
        """Release or date what stayed when the row was closed."""
        if row.mined is not None and first.final and row.charge.amount:
            settled = self.charged_finally(s, row, first, second)
            if settled != row:
                yield f"the charge of {original(i)} is settled", settled

    # Invariants.

    def broken(self, state: PaymentState) -> str | None:
        found = filter(None, (self.executed_wrongly(state), self.left_late(state), self.over_limit(state)))
        return next((message for message in found if message[:2] in self.judged), None)

    def executed_wrongly(self, s: PaymentState) -> str | None:
        for i, row in enumerate(s.rows):
            ran = [tx for tx, _ in s.chain if tx.payload in (original(i), replacement(i))]
            if len(ran) > 1:
                return f"I1: {original(i)} was executed by {' and '.join(map(show, ran))}"
            if row and row.status in "XF" and ran and "I2" in self.judged:
                return f"I2: {original(i)} is {ENDS[row.status]}, but {show(ran[0])} was executed"
            if row and row.status == "C" and not ran and LIAR not in self.nodes:
                return f"I2: {original(i)} is confirmed, but was not executed"
        return None

    @staticmethod
    def left_late(s: PaymentState) -> str | None:
        return "I6: bytes left that the row no longer wanted" if s.left_late else None

    def over_limit(self, s: PaymentState) -> str | None:
        if self.limit is None:
            return None
        spent = [(tick, self.values.get(tx.payload, 0)) for tx, tick in s.chain]
        for start, _ in spent:
            total = sum(value for tick, value in spent if start <= tick < start + WINDOW)
            if total > self.limit:
                return f"I7: {total} executed within a window, the limit is {self.limit}"
        return None

    def at_rest(self, state: PaymentState) -> bool:
        return all(row is None or row.status in CLOSED for row in state.rows)


def requeued(row: Row) -> Row:
    return row._replace(status="p", nonce=None, mined=None)


def is_unsigned(tx: Tx | None) -> bool:
    return tx is not None and not tx.is_signed
