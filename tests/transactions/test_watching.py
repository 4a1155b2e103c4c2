"""Looking at a real chain: transactions become mined, confirmed or failed, and go back after a reorg."""

from __future__ import annotations

from datetime import timedelta

import pytest

from chain.errors import NodesUnreachable
from relayer_service.database.clock import database_now
from tests.conftest import Log
from tests.relayers import factories
from tests.relayers.factories import KEY
from tests.transactions.hardhat import OTHER_ADDRESS, OTHER_KEY, LocalChain
from tests.transactions.lies import change_receipts
from tests.transactions.lying_node import lying_node
from tests.transactions.settled import add_attempt, broadcast, lane, look, sent, short_depths, statuses
from transactions.lanes import gate
from transactions.models import Attempt, Lane, Transaction
from transactions.settlement import removable, watching
from transactions.settlement.nonces import holds, nonce_owner
from transactions.settlement.reading import ChainView, NodeReader

__all__ = ["short_depths"]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("short_depths")]


def test_a_transaction_in_a_block_is_mined(local_chain: LocalChain) -> None:
    account = lane(local_chain)
    row, behind = sent(account, 0), sent(account, 1)
    broadcast(local_chain, row)
    add_attempt(row, 0, "bump", maxFeePerGas=20 * 10**9)
    local_chain.mine()
    assert look(account).changed == {account.pk}
    assert statuses(row, behind) == ["mined", "submitted"]
    assert account.head_since is not None
    assert row.mined_attempt == row.attempts.get(number=1)
    assert (row.block_number, row.block_hash) == (1, local_chain.block_hash(1))
    assert (row.succeeded, row.gas_used, row.effective_gas_price_text) == (True, 21_000, "1875000000")
    assert (account.chain_nonce, account.chain_block) == (1, 1)


@pytest.mark.parametrize(
    ("changes", "status", "columns"),
    [
        ({"gasUsed": hex(100_000)}, "mined", (100_000, "1875000000")),
        # More than its bytes allow: it was not reported.
        ({"gasUsed": hex(100_001)}, "mined", (None, "1875000000")),
        ({"effectiveGasPrice": hex(10 * 10**9 + 1)}, "mined", (21_000, "")),
        # A block that does not exist.
        ({"blockNumber": hex(1_000_001)}, "submitted", (None, "")),
    ],
)
def test_a_receipt_reports_no_more_than_the_bytes_and_the_chain_allow(
    local_chain: LocalChain, changes: dict[str, str], status: str, columns: tuple[int | None, str]
) -> None:
    with lying_node(local_chain.url) as node:
        relayer = factories.relayer(network="hardhat", rpc_urls=[{"url": node.url, "weight": 100}])
        account = lane(local_chain, relayer=relayer)
        row = sent(account, 0)
        Attempt.objects.update(max_fee_text=str(10 * 10**9))
        broadcast(local_chain, row)
        local_chain.mine()
        node.lie("eth_getTransactionReceipt", change_receipts(**changes))
        look(account)
    assert (statuses(row), (row.gas_used, row.effective_gas_price_text)) == ([status], columns)


def test_a_reorg_brings_a_mined_transaction_back(local_chain: LocalChain) -> None:
    account = lane(local_chain)
    row = sent(account, 0)
    before = local_chain.snapshot()
    broadcast(local_chain, row)
    look(account)
    local_chain.mine()
    assert look(account).advanced == {account.pk}
    assert statuses(row) == ["mined"]
    local_chain.reorganise(before, 2)
    found = look(account)
    assert (found.changed, found.advanced) == ({account.pk}, set())
    assert statuses(row) == ["submitted"]
    assert row.status_reason == "A reorg removed its block. It is broadcast again."
    assert (row.block_number, row.block_hash, row.mined_attempt, row.succeeded) == (None, "", None, None)
    assert (account.chain_nonce, account.next_nonce) == (0, 1)


def test_a_worker_without_the_lease_writes_nothing(local_chain: LocalChain) -> None:
    account = lane(local_chain)
    row = sent(account, 0)
    broadcast(local_chain, row)
    local_chain.mine()
    account.lease = None
    account.save()
    look(account)
    assert statuses(row) == ["submitted"]
    assert account.chain_nonce is None


@pytest.mark.parametrize("relayer_is_deleted", [False, True])
def test_a_confirmed_transaction_that_leaves_the_chain_is_reported_once(
    local_chain: LocalChain, log: Log, relayer_is_deleted: bool
) -> None:
    account = lane(local_chain)
    row, above = sent(account, 0), sent(account, 1)
    before = local_chain.snapshot()
    broadcast(local_chain, row)
    local_chain.mine(2)
    look(account)
    look(account)
    assert (statuses(row), list(gate.removed_rows(account))) == (["confirmed"], [])
    if relayer_is_deleted:
        former = account.relayer
        assert former
        urls = [{"url": local_chain.url, "weight": 100}]
        account.relayer = factories.relayer(identifier="second", network="hardhat", rpc_urls=urls)
        account.save(update_fields=["relayer"])
        former.delete()
    local_chain.reorganise(before, 4)
    assert look(account).changed == {account.pk}
    look(account)
    assert statuses(row) == ["confirmed"]
    assert row.contradicted_at is not None
    details = "block 1 was replaced, and the transaction is in no block"
    expected = f"The chain contradicts the status confirmed of the transaction {row.identifier}: {details}"
    assert [line["message"] for line in log.parsed() if line["level"] == "CRITICAL"] == [expected]
    # It is broadcast again.
    removed = list(gate.removed_rows(account))
    assert [(each, each.mined_attempt) for each in removed] == [(row, row.mined_attempt)]
    # No no-op takes its nonce, though a row above it is in flight.
    local_chain.mine(4)
    look(account)
    watched = Lane.objects.select_related("relayer", "watch").get(pk=account.pk)
    assert (watched.gap_block, holds.noops_due(watched), statuses(above)) == (None, [], ["submitted"])
    broadcast(local_chain, row)
    local_chain.mine()
    look(account)
    assert list(gate.removed_rows(account)) == []


def test_a_search_that_fails_holds_up_no_other_lane(local_chain: LocalChain, monkeypatch: pytest.MonkeyPatch) -> None:
    account = lane(local_chain)
    sent(account, 0)
    local_chain.send_from(KEY, 0, value=5)
    local_chain.mine(5)
    searched: list[int] = []

    def fail(reader: NodeReader, lane: Lane, view: ChainView) -> bool:
        searched.append(lane.pk)
        raise NodesUnreachable("the node timed out")

    monkeypatch.setattr(nonce_owner, "identify", fail)
    assert look(account).changed == {account.pk}
    assert look(account).head_number == 5
    assert searched == [account.pk]


def watched_lanes() -> list[Lane]:
    return list(Lane.objects.filter(removable.has_removable_rows()))


def test_a_lane_is_watched_until_its_confirmed_rows_are_final(local_chain: LocalChain) -> None:
    account = lane(local_chain)
    row = sent(account, 0)
    broadcast(local_chain, row)
    local_chain.mine(2)
    look(account)
    assert watched_lanes() == []
    look(account)
    assert (statuses(row), watched_lanes()) == (["confirmed"], [account])
    local_chain.mine(3)
    look(account)
    look(account)
    assert (account.final_nonce, watched_lanes()) == (1, [])


def test_a_lane_without_final_counts_is_watched_for_a_day(local_chain: LocalChain) -> None:
    account = lane(local_chain, chain_nonce=1)
    row = sent(account, 0)
    finished = database_now() - timedelta(hours=23)
    Transaction.objects.update(status="confirmed", mined_attempt=row.last_attempt, finished_at=finished)
    assert watched_lanes() == [account]
    Transaction.objects.update(finished_at=finished - timedelta(hours=1))
    assert watched_lanes() == []
    # However long ago: the chain waits for its nonce.
    Lane.objects.update(chain_nonce=0)
    assert watched_lanes() == [account]


def test_lanes_of_one_node_are_settled_in_one_look(local_chain: LocalChain) -> None:
    first = lane(local_chain)
    other = factories.relayer(
        identifier="relayer-2",
        network="hardhat",
        address=OTHER_ADDRESS,
        rpc_urls=[{"url": local_chain.url, "weight": 100}],
    )
    second = lane(local_chain, address=OTHER_ADDRESS, relayer=other)
    rows = [sent(first, 0), sent(second, 0, fields={"key": OTHER_KEY})]
    broadcast(local_chain, *rows)
    local_chain.mine()
    lanes = list(Lane.objects.select_related("relayer"))
    assert watching.look(lanes).changed == {first.pk, second.pk}
    assert statuses(*rows) == ["mined", "mined"]
