"""Private transactions on a chain, with a stand-in private node and public ones that record all that they are sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.transactions.lab import Lab, attempts, is_final, let_time_pass
from tests.transactions.lying_node import LyingNode, lying_node
from tests.transactions.mempool import MempoolChain
from tests.transactions.private_node import PrivateNode, private_node
from transactions.models import Attempt, Transaction
from transactions.requests import actions

Purpose = Attempt.Purpose


class PrivateLab(Lab):
    """A lab whose relayer has a private node, and two public ones: copies of broadcasts go to a second."""

    def __init__(self, chain: MempoolChain, private: PrivateNode, public: list[LyingNode]) -> None:
        self.private, self.public = private, public
        nodes = [{"url": node.url, "weight": 100} for node in public]
        super().__init__(chain, rpc_urls=nodes, policies={"private_transactions": True})
        self.change(private_rpc_urls=[{"url": private.url, "weight": 100}])

    def change(self, **changes: Any) -> None:
        relayer = self.sender.relayer
        relayer.set_rpc_urls(changes.pop("private_rpc_urls", relayer.private_rpc_urls), "private_rpc_urls")
        for name, value in changes.items():
            setattr(relayer, name, value)
        relayer.save()

    def public_bytes(self) -> list[bytes]:
        return [raw for node in self.public for raw in node.raw]

    def pass_blocks(self, count: int) -> None:
        """Mine blocks without what private nodes have, with a new worker before the turn after them."""
        self.block(count)
        let_time_pass(20)
        self.restart()
        self.turn()

    def finish_privately(self) -> None:
        """Go on until everything is final; the private node includes all that it has."""
        for _ in range(20):
            if is_final():
                break
            self.private.include()
            self.block()
            let_time_pass(20)
            self.turn()
        violations = self.oracle.violations_at_rest()
        assert not violations, violations


@pytest.fixture
def lab(mempool: MempoolChain, transactional_db: None, settings: Any) -> Iterator[PrivateLab]:
    settings.EXTENSIONS = ["transactions"]
    with private_node(mempool) as private, lying_node(mempool.url) as one, lying_node(mempool.url) as other:
        yield PrivateLab(mempool, private, [one, other])


def raw(row: Transaction) -> list[bytes]:
    return [bytes(each.raw) for each in attempts(row)]


def shown_reason(lab: Lab, row: Transaction) -> str:
    return str(lab.sender.api.get(lab.sender.path(row.identifier)).body["data"]["status_reason"])


def test_no_public_node_gets_a_private_transaction(lab: PrivateLab) -> None:
    """Through kills, rebroadcasts, a higher price, a policy that is switched off, and a reorg."""
    row = lab.send("a")
    lab.turn_killed_at("committed")
    lab.turn_killed_at("before_broadcast")
    lab.turn()
    assert lab.private.raw == raw(row)
    assert shown_reason(lab, row).startswith("With private nodes since ")

    lab.pass_blocks(19)
    assert lab.private.raw == raw(row)
    lab.pass_blocks(1)
    assert lab.private.raw == raw(row) * 2

    lab.change(policies={})
    actions.speed_up(row.pk, {}, by="tests")
    lab.turn_killed_at("committed")
    lab.turn()
    assert [each.purpose for each in attempts(row)] == [Purpose.SEND, Purpose.BUMP]
    assert lab.private.held() == raw(row)[1:]

    lab.private.include()
    lab.block()
    assert Transaction.objects.get().status == "mined"
    lab.chain.reorg(1, keeps_mempool=False)
    lab.look()
    let_time_pass(20)
    lab.restart()
    lab.turn()
    assert lab.private.held() == raw(row)[1:]
    lab.finish_privately()

    assert Transaction.objects.get().status == "confirmed"
    assert lab.public_bytes() == []


def test_a_private_transaction_that_is_queued_again_stays_private(lab: PrivateLab) -> None:
    """It was signed while the policy was set, which was switched off before its nonce was used elsewhere."""
    lab.change(policies={})
    row = lab.send("a")
    lab.change(policies={"private_transactions": True})
    lab.turn()
    lab.change(policies={})
    lab.oracle.outside.add(lab.chain.spend_nonce(lab.sender.key, lab.sender.address))
    lab.chain.block()
    lab.finish_privately()

    assert [(each.nonce, each.private_since is None) for each in attempts(row)] == [(0, False), (1, False)]
    assert Transaction.objects.get(pk=row.pk).status == "confirmed"
    assert lab.public_bytes() == []


@pytest.mark.parametrize("fallback", [None, 3])
def test_a_cancellation_goes_to_public_nodes_when_the_private_ones_have_dropped_the_original(
    lab: PrivateLab, fallback: int | None
) -> None:
    lab.change(private_fallback_blocks=fallback)
    row = lab.send("a")
    lab.turn()
    if fallback:
        # The relayer says after how many blocks public nodes get it.
        blocks, status = fallback, "confirmed"
    else:
        blocks, status = 26, "canceled"
        actions.cancel(row.pk, by="tests")
        lab.turn()
        assert (lab.private.raw, lab.private.held()) == (raw(row), [])
        block = attempts(row)[1].private_since
        assert block is not None
        assert shown_reason(lab, row) == (
            f"It is being replaced by a no-op, which private nodes have until block {block + 26}: "
            "Its cancellation was requested."
        )
    lab.pass_blocks(blocks - 1)
    assert lab.public_bytes() == []
    lab.pass_blocks(1)
    newest = raw(row)[-1]
    assert set(lab.public_bytes()) == {newest}
    lab.finish()
    assert Transaction.objects.get().status == status
    assert set(lab.public_bytes()) == {newest}


def test_a_private_transaction_waits_for_private_nodes_without_a_nonce(lab: PrivateLab) -> None:
    row = lab.send("a")
    lab.change(private_rpc_urls=[], policies={})
    lab.turn()
    found = Transaction.objects.get(pk=row.pk)
    assert (found.nonce, found.status_reason) == (
        None,
        "It is private, and its network has no private nodes: add some to the relayer or the network.",
    )
    assert lab.public_bytes() == []
