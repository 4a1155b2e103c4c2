"""Anything that can happen to a lane, in any order: a state machine that Hypothesis drives.

After each rule the invariants that hold at any moment; at the end the faults stop, and all ten hold.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import transaction
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from chain.errors import ChainFault
from notifications.models import Delivery
from relayers.models import Relayer
from tests.api import Answer
from tests.chain.answering_node import ChangeNetwork
from tests.chain.hardhat import NodeError
from tests.relayers.factories import set_paused
from tests.transactions import accounts
from tests.transactions.engines import Engine, Killed, at_step, end_lease, kill, let_time_pass, run_until_final
from tests.transactions.lies import SEEDED
from tests.transactions.lying_node import LyingNode, lying_node
from tests.transactions.mempool import BASE_FEE, MempoolChain
from tests.transactions.oracle import Oracle
from transactions.models import Attempt, ChainWatch, Hold, Lane, StatusChange, Transaction
from transactions.requests import actions
from transactions.settlement.nonces import holds

pytestmark = pytest.mark.one_engine

ENGINES = st.integers(0, 1)
ROWS = st.integers(0, 11)
# Outside of database transactions: there another worker can do its whole turn in between.
OPEN_STEPS = ["claimed", "read", "planned", "signed", "committed", "before_broadcast", "broadcast", "outcomes_written"]
STEPS = [*OPEN_STEPS, "before_commit"]
LOOK_STEPS = ["settled"]


class LaneMachine(RuleBasedStateMachine):
    chain: MempoolChain
    node: LyingNode
    examples = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).examples += 1
        self.name = f"machine-{self.examples}"
        self.chain.reset()
        self.node.be_honest()
        self.sender = accounts.sender(self.chain, self.chain.ledger, self.name, url=self.node.url)
        # A reorg must not take back what the account has.
        self.chain.block()
        self.oracle = Oracle(self.chain, self.chain.ledger, since=self.chain.head(), secrets=self.sender.secrets)
        self.requests = 0
        self.sender.send(self._next_id(), key=f"{self.name}-0")
        self._note_accepted()
        self.lane_pk = Lane.objects.get().pk
        self.engines = [Engine(self.lane_pk), Engine(self.lane_pk)]

    def _next_id(self) -> bytes:
        self.requests += 1
        return accounts.ledger_id(f"{self.name}-{self.requests - 1}")

    def _note_accepted(self) -> None:
        for row in Transaction.objects.filter(kind=Transaction.Kind.REQUEST):
            self.oracle.accepted[row.identifier] = accounts.ledger_id(row.idempotency_key or "")

    @rule()
    @precondition(lambda self: self.requests < 12 and not self.sender.relayer.paused)
    def send(self) -> None:
        key = f"{self.name}-{self.requests}"
        self.sender.send(self._next_id(), key=key)
        self._note_accepted()

    @rule()
    @precondition(lambda self: not self.sender.relayer.paused)
    def send_again_with_the_same_key(self) -> None:
        key = f"{self.name}-{self.requests - 1}"
        assert self.sender.send(accounts.ledger_id(key), key=key) in self.oracle.accepted

    def _row(self, place: int) -> Transaction:
        """Return one of the requests, whatever its status is."""
        rows = Transaction.objects.filter(kind=Transaction.Kind.REQUEST).order_by("sequence")
        return rows[place % rows.count()]

    def _check(self, answer: Answer, *, is_paused: bool = False) -> None:
        """A request is accepted, or refused as the transaction is mined, final or held."""
        assert answer.status in ({403} if is_paused else {200, 409}), answer.text

    @rule(place=ROWS)
    def cancel(self, place: int) -> None:
        self._check(self.sender.cancel(self._row(place).identifier))

    @rule(place=ROWS)
    def replace(self, place: int) -> None:
        row = self._row(place)
        other = accounts.ledger_id(f"{row.identifier}-{len(self.oracle.replacements[row.identifier])}")
        self.oracle.replacements[row.identifier].append(other)
        self._check(self.sender.replace(row.identifier, other), is_paused=self.sender.relayer.paused)

    @rule(place=ROWS, speed=st.sampled_from(["", "fastest"]))
    def speed_up(self, place: int, speed: str) -> None:
        answer = self.sender.speed_up(self._row(place).identifier, speed)
        self._check(answer, is_paused=self.sender.relayer.paused)

    @rule(place=ROWS)
    def resend(self, place: int) -> None:
        with suppress(actions.Refused):
            actions.resend(self._row(place).pk, by="tests")

    @rule()
    def hold(self) -> None:
        call_command("hold_lanes", verbosity=0, stdout=StringIO())

    @rule()
    def release(self) -> None:
        release_all()

    @rule(paused=st.booleans())
    def pause_or_resume(self, paused: bool) -> None:
        set_paused(self.sender.relayer, paused)

    @rule(engine=ENGINES)
    def turn(self, engine: int) -> None:
        self.engines[engine].turn()

    @rule(engine=ENGINES)
    def look(self, engine: int) -> None:
        with suppress(ChainFault):
            self.engines[engine].look()

    @rule(engine=ENGINES, step=st.sampled_from(STEPS))
    def turn_killed(self, engine: int, step: str) -> None:
        self._kill(self.engines[engine].turn, self.engines[engine], step)

    @rule(engine=ENGINES, step=st.sampled_from(LOOK_STEPS))
    def look_killed(self, engine: int, step: str) -> None:
        self._kill(self.engines[engine].look, self.engines[engine], step)

    def _kill(self, work: Callable[[], None], engine: Engine, step: str) -> None:
        with at_step(step, kill), suppress(Killed, ChainFault):
            work()
        engine.die()

    @rule(engine=ENGINES, step=st.sampled_from(OPEN_STEPS))
    def turn_overtaken(self, engine: int, step: str) -> None:
        """The lease ends while its holder is slow, and another worker does its work in between."""
        other = self.engines[1 - engine]

        def overtake() -> None:
            end_lease(self.lane_pk)
            other.lane = None
            other.turn()

        with at_step(step, overtake):
            self.engines[engine].turn()

    @rule()
    def cut_lease(self) -> None:
        end_lease(self.lane_pk)

    @rule(blocks=st.integers(0, 3))
    def mine(self, blocks: int) -> None:
        self.chain.block(blocks)

    @rule(all_of_it=st.booleans())
    def drop_from_mempool(self, all_of_it: bool) -> None:
        pending = self.chain.waiting()
        if pending:
            self.chain.drop(*(pending if all_of_it else pending[:1]))

    @rule(depth=st.integers(1, 5), keeps_mempool=st.booleans())
    def reorg(self, depth: int, keeps_mempool: bool) -> None:
        self.chain.reorg(depth, keeps_mempool=keeps_mempool)

    @rule(factor=st.sampled_from([10, 1]))
    def change_base_fee(self, factor: int) -> None:
        self.chain.base_fee = factor * BASE_FEE

    @rule(wei=st.sampled_from([10**12, accounts.FUNDS]))
    def change_balance(self, wei: int) -> None:
        self.chain.set_balance(self.sender.address, wei)

    @rule()
    def spend_a_nonce_from_outside(self) -> None:
        self.chain.set_balance(self.sender.address, accounts.FUNDS)
        # Another one with this nonce may be in the mempool already, at the same price.
        with suppress(NodeError):
            self.oracle.outside.add(self.chain.spend_nonce(self.sender.key, self.sender.address))

    @rule(seed=st.integers(0, 1_000))
    def node_lies(self, seed: int) -> None:
        self.node.lie_by_seed(seed, SEEDED, share=0.5)

    @rule()
    def node_is_honest(self) -> None:
        self.node.be_honest()

    @rule(seconds=st.sampled_from([1, 15, 60]))
    def time_passes(self, seconds: int) -> None:
        let_time_pass(seconds)

    @invariant()
    def holds_at_any_moment(self) -> None:
        assert self.oracle.violations_now() == []

    def teardown(self) -> None:
        try:
            self.node.be_honest()
            self.chain.base_fee = BASE_FEE
            self.chain.set_balance(self.sender.address, accounts.FUNDS)
            set_paused(self.sender.relayer, False)
            release_all()
            for engine in self.engines:
                engine.die()
            end_lease(self.lane_pk)
            run_until_final(self.engines[0], self.chain)
            assert self.oracle.violations_at_rest() == []
        finally:
            remove_everything()


def release_all() -> None:
    """End the holds of staff."""
    with transaction.atomic():
        for lane in Lane.objects.select_for_update(no_key=True):
            holds.end_hold(lane, Hold.OPERATOR, "")


def remove_everything() -> None:
    """Make room for the next example."""
    for model in (StatusChange, Attempt, Transaction, Lane, ChainWatch, Delivery):
        model._base_manager.all().delete()
    Relayer.objects.all().delete()


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_invariants_hold_in_any_order_of_events(
    mempool: MempoolChain, change_network: ChangeNetwork, settings: Any
) -> None:
    settings.EXTENSIONS = ["transactions"]
    # Reorgs are of up to five blocks: deeper ones than the confirmations are contradictions, not mistakes.
    change_network(confirmations=7, finality_depth=8)
    with lying_node(mempool.url) as node:
        LaneMachine.chain, LaneMachine.node = mempool, node
        run_state_machine_as_test(
            LaneMachine,
            settings=hypothesis_settings(max_examples=10, stateful_step_count=30, deadline=None),
        )
