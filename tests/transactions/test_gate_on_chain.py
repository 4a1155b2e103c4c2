"""What leaves after a cancellation, a replacement or an expiry: never again the former payload."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection

from chain.broadcast import sending, spreading
from tests.concurrency import wait_until
from tests.transactions import accounts, lies
from tests.transactions.engines import let_time_pass
from tests.transactions.hardhat import record
from tests.transactions.lab import Lab, attempts
from tests.transactions.lying_node import SEND, LyingNode, Request, lying_node
from tests.transactions.mempool import MempoolChain
from transactions.models import Attempt, Transaction
from transactions.requests import actions

TEN_HOURS = 10 * 3_600


@pytest.fixture
def nodes(mempool: MempoolChain, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[LyingNode]]:
    """Two nodes of the chain, called in this order."""
    monkeypatch.setattr(sending, "in_order", lambda nodes, **options: [url for url, _ in nodes])
    with lying_node(mempool.url) as first, lying_node(mempool.url) as second:
        yield [first, second]


@pytest.fixture
def lab(nodes: list[LyingNode], mempool: MempoolChain, transactional_db: None, settings: Any) -> Lab:
    settings.EXTENSIONS = ["transactions"]
    return Lab(mempool, rpc_urls=[{"url": node.url, "weight": 100} for node in nodes])


def cancel(lab: Lab, row: Transaction) -> None:
    actions.cancel(row.pk, by="tests")


def replace(lab: Lab, row: Transaction) -> None:
    lab.oracle.replacements[row.identifier].append(accounts.ledger_id("b"))
    values = {"to": lab.chain.ledger, "value": 0, "data": record(accounts.ledger_id("b")), "speed": "fast"}
    actions.replace(row.pk, values, by="tests")


def expire(lab: Lab, row: Transaction) -> None:
    """Have no worker for ten hours, of which the request was valid for eight."""
    let_time_pass(TEN_HOURS)


def arrived(nodes: list[LyingNode]) -> set[bytes]:
    return {raw for node in nodes for raw in node.raw}


def ended(row: Transaction) -> tuple[str, str]:
    """Return the status of a row, and the purpose of what was mined."""
    found = Transaction.objects.select_related("mined_attempt").get(pk=row.pk)
    return found.status, found.mined_attempt.purpose if found.mined_attempt else ""


ENDS: list[tuple[Callable[[Lab, Transaction], None], tuple[str, str]]] = [
    (cancel, ("canceled", "cancel")),
    (replace, ("confirmed", "replace")),
    (expire, ("expired", "expire")),
]


@pytest.mark.parametrize("is_killed", [True, False])
@pytest.mark.parametrize(("change", "end"), ENDS)
def test_the_former_bytes_do_not_leave_afterwards(
    lab: Lab,
    nodes: list[LyingNode],
    change: Callable[[Lab, Transaction], None],
    end: tuple[str, str],
    is_killed: bool,
) -> None:
    """The worker was killed between commit and broadcast, or nobody answered when they were sent."""
    row = lab.send("a")
    if is_killed:
        lab.turn_killed_at("committed")
        change(lab, row)
    else:
        for node in nodes:
            node.lie(SEND, lies.drop_request)
        lab.turn()
        for node in nodes:
            node.be_honest()
            node.raw.clear()
        change(lab, row)
        let_time_pass(60)
        lab.restart()
    lab.finish()

    former, *others = attempts(row)
    assert arrived(nodes) == {bytes(each.raw) for each in others}
    assert ended(row) == end
    if is_killed:
        assert former.broadcasts == 0


def test_a_cancellation_during_a_broadcast_is_late_by_one_call(lab: Lab, nodes: list[LyingNode]) -> None:
    row = lab.send("a")

    def cancel_and_fail(request: Request) -> None:
        actions.cancel(row.pk, by="tests")
        # This is a thread of the node.
        connection.close()
        lies.refuse("internal error", -32603)(request)

    nodes[0].lie_once(SEND, cancel_and_fail)
    lab.turn()
    (former,) = attempts(row)
    assert (nodes[0].raw, nodes[1].raw) == ([bytes(former.raw)], [])
    assert (former.outcome, former.broadcasts) == ("unknown", 1)
    lab.finish()

    assert ended(row) == ("canceled", "cancel")


def test_what_the_gate_kept_back_has_no_outcome(lab: Lab, nodes: list[LyingNode]) -> None:
    """It is canceled after the commit, before the first call."""
    first, second = lab.send("a"), lab.send("b")
    lab.turn_killed_at("committed")
    Transaction.objects.filter(pk=first.pk).update(requested_action="cancel")
    lab.turn()

    assert [each.broadcasts for each in attempts(first)] == [0, 1]
    assert [each.broadcasts for each in attempts(second)] == [1]
    lab.finish()


def unaffordable(lab: Lab, row: Transaction) -> None:
    values = {"to": lab.chain.ledger, "value": 10**30, "data": b"", "speed": "fast"}
    actions.replace(row.pk, values, by="tests")


def test_a_payload_is_not_bumped_while_its_replacement_cannot_be_signed(lab: Lab, nodes: list[LyingNode]) -> None:
    row = lab.send("a")
    lab.turn()
    # The copy for the second node has arrived, too.
    wait_until(lambda: not spreading._copies._waiting)
    lab.chain.drop()
    unaffordable(lab, row)
    before = arrived(nodes)
    lab.chain.base_fee *= 20
    lab.chain.block()
    let_time_pass(60)
    lab.turn()

    assert ([each.purpose for each in attempts(row)], lab.chain.waiting()) == (["send"], [])
    assert arrived(nodes) == before
    found = Transaction.objects.get(pk=row.pk)
    assert (found.requested_action, found.status_reason[:24]) == ("replace", "It is not replaced yet: ")


def test_a_replacement_that_cannot_be_signed_does_not_block_the_lane(lab: Lab) -> None:
    row, behind = lab.send("a"), lab.send("b")
    lab.turn()
    lab.look()
    lab.chain.drop()
    unaffordable(lab, row)
    let_time_pass(590)
    lab.turn()
    assert Transaction.objects.get(pk=row.pk).requested_action == "replace"
    let_time_pass(10)
    lab.turn()
    lab.oracle.accepted.pop(row.identifier)
    for _ in range(10):
        lab.block()
        lab.turn()

    found = Transaction.objects.get(pk=row.pk)
    assert (ended(row), ended(behind)) == (("expired", "expire"), ("confirmed", Attempt.Purpose.SEND))
    assert found.status_reason.startswith(
        "Its replacement could not be signed for 10 minutes, and holds up others. It is not replaced yet: "
    )
