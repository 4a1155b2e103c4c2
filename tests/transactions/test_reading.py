"""Reading a chain from one node: nodes that are behind, pruned state, and the search for who used a nonce."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chain.errors import NodesUnreachable
from chain.networks import networks
from tests.relayers.factories import ADDRESS
from tests.transactions.fake_chain import RECEIVER, FakeChain, serve
from transactions.settlement import final_counts
from transactions.settlement.reading import Block, Counts, Question
from transactions.settlement.searching import MAX_SCANNED, Search, UsedNonce, search

NETWORK = replace(networks()["hardhat"], finality_depth=10)


def used(nonce: int, block: int) -> UsedNonce:
    prices = {"gas_price_text": "1000000000"}
    where = Block(block, f"0x{block:064x}")
    return UsedNonce(nonce, f"0x{nonce:064x}", where, RECEIVER, nonce + 100, b"", 21_000, prices)


def test_a_view_has_the_final_count_of_the_last_head() -> None:
    with serve(FakeChain(100, [85, 89, 95]), NETWORK) as reader:
        view = reader.view(Question([ADDRESS], [85], 99, 99))
    assert (view.head.number, view.final_number) == (100, 90)
    assert view.counts == {ADDRESS: Counts(3, 3, 2, 89)}
    assert view.hashes == {number: f"0x{number:064x}" for number in (85, 89, 100)}


@pytest.mark.parametrize(("highest", "is_behind"), [(103, False), (104, True), (None, False)])
def test_a_node_more_than_three_blocks_behind_is_rejected(highest: int | None, is_behind: bool) -> None:
    with serve(FakeChain(100, []), NETWORK) as reader:
        question = Question([ADDRESS], [], highest, highest)
        if is_behind:
            with pytest.raises(NodesUnreachable, match="is 4 blocks behind"):
                reader.view(question)
        else:
            assert reader.view(question).head.number == 100


@pytest.mark.parametrize(("last_head", "counted_at"), [(97, 87), (98, None), (100, None)])
def test_a_count_is_final_only_at_the_depth_of_the_same_node(last_head: int, counted_at: int | None) -> None:
    """A node that is behind may still have a block at that height that another one replaces."""
    with serve(FakeChain(97, [80]), NETWORK) as reader:
        view = reader.view(Question([ADDRESS], [], last_head, last_head))
    assert view.counts == {ADDRESS: Counts(1, 1, None if counted_at is None else 1, counted_at)}


def test_a_search_narrows_the_range_by_counts() -> None:
    chain = FakeChain(1_000_000, [5, 700_001, 700_001, 900_000])
    with serve(chain, NETWORK) as reader:
        found = search(reader, ADDRESS, 2, 0, 999_990)
    assert found == Search(used(2, 700_001), 700_000)
    assert chain.asked.count("eth_getBlockByNumber") <= 4


def test_a_search_reads_blocks_where_the_state_is_pruned() -> None:
    chain = FakeChain(1_000, [500, 512, 530], state_blocks=20)
    with serve(chain, NETWORK) as reader:
        assert search(reader, ADDRESS, 1, 500, 990) == Search(used(1, 512), 511)
        # It goes on where the last one ended.
        first = search(reader, ADDRESS, 2, 511, 990)
        assert first == Search(None, 511 + MAX_SCANNED)
        assert search(reader, ADDRESS, 2, first.searched_block, 990) == Search(used(2, 530), 529)


def test_a_search_stops_at_a_block_that_the_node_does_not_have() -> None:
    with serve(FakeChain(95, [98]), NETWORK) as reader:
        assert search(reader, ADDRESS, 0, 90, 100) == Search(None, 95)


def test_final_counts_come_from_earlier_looks_where_the_state_is_pruned() -> None:
    final_counts._samples.clear()
    chain = FakeChain(100, [99, 105], state_blocks=0)
    with serve(chain, NETWORK) as reader:

        def counts() -> Counts:
            question = Question([ADDRESS], [], None, chain.head)
            return final_counts.complete(reader, reader.view(question)).counts[ADDRESS]

        assert counts() == Counts(1, 1)
        chain.head = 110
        assert counts() == Counts(2, 2)
        chain.head = 111
        assert counts() == Counts(2, 2, 1, 100)
        chain.head = 125
        assert counts() == Counts(2, 2, 2, 111)
