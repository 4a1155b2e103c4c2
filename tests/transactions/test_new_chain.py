"""A chain that is replaced: a new epoch on a local development node, a hold elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.db import transaction

from chain.networks import networks
from tests.relayers import factories
from tests.transactions.hardhat import OTHER_ADDRESS, OTHER_KEY, LocalChain
from tests.transactions.settled import broadcast, lane, look, request, sent, short_depths, statuses
from transactions.models import ChainWatch, Hold, Lane
from transactions.repair.holding import release_lane
from transactions.settlement import chains, watching
from transactions.settlement.nonces import epochs
from transactions.settlement.reading import ChainView, NodeReader, Question

__all__ = ["short_depths"]

pytestmark = [pytest.mark.django_db]


@pytest.fixture
def local(settings: Any) -> None:
    settings.LOCAL = True


@pytest.fixture
def shared(settings: Any) -> None:
    settings.LOCAL = False


@pytest.mark.usefixtures("local")
def test_a_restarted_development_node_starts_a_new_epoch(local_chain: LocalChain) -> None:
    account = lane(local_chain)
    done, open_ = sent(account, 0), sent(account, 1)
    broadcast(local_chain, done)
    local_chain.mine(5)
    look(account)
    look(account)
    local_chain.restart()
    waiting = request(account)
    look(account)
    assert statuses(done, open_, waiting) == ["confirmed", "failed", "pending"]
    assert open_.status_reason == "The chain was replaced by another one, on which this transaction was not sent."
    assert (account.epoch, account.first_nonce, account.next_nonce, account.chain_nonce) == (1, 0, 0, 0)
    assert (account.holds, waiting.epoch) == ({}, 1)
    # The same nonce again, in the new epoch.
    row = sent(account, 0)
    broadcast(local_chain, row)
    local_chain.mine(2)
    look(account)
    look(account)
    assert statuses(row, done, open_) == ["confirmed", "confirmed", "failed"]


@pytest.mark.usefixtures("shared")
def test_a_replaced_chain_holds_the_lane_where_staff_decide(local_chain: LocalChain) -> None:
    account, other = lane(local_chain), other_lane(local_chain)
    row, theirs = sent(account, 0), sent(other, 0, fields={"key": OTHER_KEY})
    local_chain.mine(5)
    for each in (account, other):
        look(each)
    local_chain.restart()
    look(account)
    other.refresh_from_db()
    assert [(list(each.holds), each.epoch) for each in (account, other)] == [(["chain"], 0)] * 2
    assert statuses(row, theirs) == ["submitted", "submitted"]
    # One is released on the chain that the nodes have now.
    with transaction.atomic():
        assert release_lane(account, [Hold.CHAIN], "Intended.") is True
    broadcast(local_chain, row)
    local_chain.mine()
    for each in (account, other):
        look(each)
    assert (account.holds, account.epoch, account.chain_nonce, statuses(row)) == ({}, 0, 1, ["mined"])
    assert list(other.holds) == ["chain"]
    # The other one starts over.
    with transaction.atomic():
        epochs.start_epoch(other)
    look(other)
    assert (other.holds, statuses(theirs), other.epoch, other.next_nonce) == ({}, ["failed"], 1, 0)


def other_lane(chain: LocalChain) -> Lane:
    """Create a lane of another account that uses the same nodes."""
    nodes = [{"url": chain.url, "weight": 50}]
    relayer = factories.relayer(identifier="relayer-2", network="hardhat", address=OTHER_ADDRESS, rpc_urls=nodes)
    return lane(chain, address=OTHER_ADDRESS, relayer=relayer)


def read(account: Lane, watch: ChainWatch) -> ChainView:
    """Return a view of the chain that the nodes have now."""
    assert account.relayer is not None
    url, _ = account.relayer.node_urls()[0]
    question = Question([account.address], needs_genesis=True, genesis_hash=watch.genesis_hash)
    return NodeReader(url, networks()["hardhat"]).view(question)


@pytest.mark.usefixtures("local")
def test_two_watches_of_the_same_nodes_start_one_epoch(local_chain: LocalChain) -> None:
    account = lane(local_chain)
    look(account)
    network, watch = networks()["hardhat"], ChainWatch.objects.get()
    local_chain.restart()
    view = read(account, watch)
    with transaction.atomic():
        assert chains.replace(watch, view, network) == {account.pk}
    look(account)
    row = sent(account, 0)
    # The other one read the watch and the chain before that.
    with transaction.atomic():
        assert chains.replace(watch, view, network) == set()
    account.refresh_from_db()
    assert (account.epoch, statuses(row)) == (1, ["submitted"])


@pytest.mark.usefixtures("local")
def test_what_was_read_in_an_earlier_epoch_is_not_written(
    local_chain: LocalChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, original = lane(local_chain), watching._read

    def read_then_replace(*args: Any) -> Any:
        found = original(*args)
        with transaction.atomic():
            epochs.start_epoch(Lane.objects.get(pk=account.pk))
        return found

    monkeypatch.setattr(watching, "_read", read_then_replace)
    look(account)
    assert (account.epoch, account.next_nonce, account.chain_nonce) == (1, None, None)


@pytest.mark.usefixtures("shared")
def test_a_hold_ends_when_the_nodes_have_the_chain_again(local_chain: LocalChain) -> None:
    account = lane(local_chain)
    row = sent(account, 0)
    broadcast(local_chain, row)
    look(account)
    ChainWatch.objects.update(genesis_hash="0x" + "ab" * 32)
    look(account)
    assert list(account.holds) == ["chain"]
    ChainWatch.objects.update(genesis_hash=local_chain.block_hash(0))
    account.holds["chain"]["genesis"] = local_chain.block_hash(0)
    account.save()
    local_chain.mine()
    look(account)
    assert (account.holds, statuses(row)) == ({}, ["mined"])


def test_a_public_chain_that_replaced_a_final_block_fails_nothing(
    local_chain: LocalChain, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The head is final.
    monkeypatch.setattr(watching, "network_of", lambda relayer: replace(networks()["hardhat"], finality_depth=0))
    account = lane(local_chain)
    row = sent(account, 0)
    before = local_chain.snapshot()
    broadcast(local_chain, row)
    local_chain.mine()
    look(account)
    local_chain.reorganise(before, 2)
    look(account)
    assert (statuses(row), account.holds, account.epoch) == (["submitted"], {}, 0)
    assert "Chain 31337 replaced its final block 1." in caplog.text
    assert Hold.CHAIN not in account.holds


@pytest.mark.usefixtures("short_depths")
def test_the_anchor_is_a_block_at_finality_depth(local_chain: LocalChain) -> None:
    account = lane(local_chain)
    local_chain.mine(5)
    look(account)
    look(account)
    watch = ChainWatch.objects.get()
    assert (watch.head_number, watch.anchor_number, watch.anchor_hash) == (5, 2, local_chain.block_hash(2))
    assert watch.genesis_hash == local_chain.block_hash(0)


@pytest.mark.usefixtures("local")
def test_other_nodes_with_another_chain_start_a_new_epoch(local_chain: LocalChain) -> None:
    account = lane(local_chain)
    row = sent(account, 0)
    elsewhere = ChainWatch.objects.create(chain_id=31337, nodes_digest="before", genesis_hash="0x" + "ab" * 32)
    Lane.objects.filter(pk=account.pk).update(watch=elsewhere)
    look(account)
    look(account)
    assert (statuses(row), account.epoch, account.next_nonce) == (["failed"], 1, 0)
