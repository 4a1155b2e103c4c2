"""Payloads that all nodes reject without words for a final refusal: they do not hold up their lane for long."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from chain.broadcast.sending import Broadcast, Outcome
from chain.transactions import decode
from relayer_service.database.clock import database_now
from tests.relayers import factories as relayer_factories
from tests.transactions import factories, lies
from tests.transactions.accounts import ledger_id
from tests.transactions.engines import end_lease, let_time_pass
from tests.transactions.lab import Lab, attempts
from tests.transactions.lying_node import SEND, Answer, Call, Lie, LyingNode, Request, lying_node
from tests.transactions.mempool import MempoolChain
from transactions.lanes.broadcasting import Sent
from transactions.lanes.outcomes import write_broadcasts
from transactions.models import Attempt, Lane, Status, Transaction

pytestmark = pytest.mark.django_db(transaction=True)

FEE_CAP = "tx fee (1.20 ether) exceeds the configured cap (1.00 ether)"
NEW_WORDS = "the policy of this node does not allow it"


@pytest.fixture
def nodes(mempool: MempoolChain) -> Iterator[list[LyingNode]]:
    with lying_node(mempool.url) as first, lying_node(mempool.url) as second:
        yield [first, second]


@pytest.fixture
def lab(nodes: list[LyingNode], mempool: MempoolChain, transactional_db: None, settings: Any) -> Lab:
    settings.EXTENSIONS = ["transactions"]
    return Lab(mempool, rpc_urls=[{"url": node.url, "weight": 100} for node in nodes])


def reject(name: str, message: str) -> Lie:
    """Reject the payload with this name, and accept all others."""

    def reject(request: Request, call: Call) -> Answer:
        is_named = call["method"] == SEND and ledger_id(name) in decode(call["params"][0]).data
        return lies.failing(call, -32000, message) if is_named else request.pass_on(call)

    return lies.per_call(reject)


def pass_minutes(lab: Lab, minutes: int) -> None:
    for _ in range(minutes):
        lab.turn()
        let_time_pass(60)
        end_lease(lab.engine.lane_pk)
        lab.engine.lane = None


def test_what_all_nodes_reject_fails_and_the_lane_goes_on(lab: Lab, nodes: list[LyingNode]) -> None:
    row, _ = lab.send("first"), lab.send("second")
    nodes[0].lie(SEND, reject("first", FEE_CAP))
    nodes[1].lie(SEND, reject("first", NEW_WORDS))
    pass_minutes(lab, 9)
    row.refresh_from_db()
    assert (row.status, row.requested_action) == (Status.SENT, "")

    lab.finish()

    row.refresh_from_db()
    assert lab.statuses() == [(0, Status.FAILED), (1, Status.CONFIRMED)]
    assert row.status_reason.startswith("No node has accepted it in ")
    assert row.status_reason.endswith((FEE_CAP, NEW_WORDS))
    assert [attempt.purpose for attempt in attempts(row)][-1] == "close"


# The rule.


REJECTED = Broadcast(Outcome.UNKNOWN, NEW_WORDS, is_rejected_by_all=True)


@pytest.fixture
def lane() -> Lane:
    return factories.lane(relayer_factories.relayer(), next_nonce=1)


def rejected(row: Transaction, minutes: int, tries: int, **changes: Any) -> Attempt:
    """Return an attempt that all nodes have rejected so often in these minutes."""
    since = database_now() - timedelta(minutes=minutes)
    return factories.attempt(row, rejections=tries, rejected_since=since, **changes)


def action_after(lane: Lane, attempt: Attempt, broadcast: Broadcast = REJECTED) -> str:
    write_broadcasts(lane, [Sent(attempt, broadcast)])
    return Transaction.objects.get(pk=attempt.transaction_id).requested_action


@pytest.mark.parametrize(
    ("minutes", "tries", "action"), [(10, 9, "close"), (10, 8, ""), (9, 9, ""), (9, 1_000, ""), (1_000, 8, "")]
)
def test_ten_tries_and_ten_minutes_close_a_nonce(lane: Lane, minutes: int, tries: int, action: str) -> None:
    row = factories.transaction(lane, status=Status.SENT, nonce=0)
    assert action_after(lane, rejected(row, minutes, tries)) == action


@pytest.mark.parametrize("broadcast", [REJECTED, Broadcast(Outcome.REFUSED, "refused", is_rejected_by_all=True)])
@pytest.mark.parametrize("purpose", ["gap", "close"])
def test_a_no_op_is_not_closed_by_another_one(lane: Lane, purpose: str, broadcast: Broadcast) -> None:
    action = "close" if purpose == "close" else ""
    row = factories.transaction(lane, status=Status.SENT, nonce=0, requested_action=action, action_reason="rejected")
    assert action_after(lane, rejected(row, 20, 20, purpose=purpose), broadcast) == action
    row.refresh_from_db()
    assert row.action_reason == "rejected"


@pytest.mark.parametrize(
    ("first", "second", "action"),
    [
        # Tries at all prices count together, and not those of another payload.
        ({"tries": 6}, {"minutes": 1, "tries": 3, "purpose": "bump"}, "close"),
        ({"tries": 9}, {"tries": 3, "purpose": "replace", "payload_version": 2}, ""),
        # What a node has accepted once is not closed.
        ({"tries": 9, "accepted_at": factories.SIGNED_AT}, {"tries": 9, "purpose": "bump"}, ""),
    ],
)
def test_what_counts_of_several_attempts(
    lane: Lane, first: dict[str, Any], second: dict[str, Any], action: str
) -> None:
    row = factories.transaction(lane, status=Status.SENT, nonce=0)
    defaults: dict[str, Any] = {"minutes": 11}
    rejected(row, **defaults | first)
    assert action_after(lane, rejected(row, **defaults | {"raw": b"other"} | second)) == action


def test_a_try_that_a_node_did_not_answer_does_not_count(lane: Lane) -> None:
    row = factories.transaction(lane, status=Status.SENT, nonce=0)
    attempt = rejected(row, 10, 9)
    assert action_after(lane, attempt, Broadcast(Outcome.UNKNOWN, "the connection was interrupted")) == ""
    assert action_after(lane, attempt) == "close"
