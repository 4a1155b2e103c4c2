"""Reading a chain from one node: nodes that are behind, pruned state, and the search for who used a nonce."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from eth_account import Account

from chain.errors import NodesUnreachable
from chain.networks import networks
from tests.chain.entries import entry
from tests.relayers.factories import ADDRESS, KEY
from tests.transactions.fake_chain import RECEIVER, FakeChain, raw, serve
from tests.transactions.hardhat import GWEI, OTHER_KEY, hash_of, signed
from transactions.settlement import final_counts, searching
from transactions.settlement.reading import Block, Counts, Question, read_receipt
from transactions.settlement.searching import MAX_SCANNED, Search, UsedNonce, search

NETWORK = replace(networks()["hardhat"], finality_depth=10)


def used(nonce: int, block: int) -> UsedNonce:
    prices = {"gas_price_text": "1000000000"}
    where = Block(block, f"0x{block:064x}")
    return UsedNonce(nonce, hash_of(raw(nonce)), where, RECEIVER, nonce + 100, b"", 21_000, prices, is_proven=True)


@pytest.mark.parametrize(("highest", "is_behind"), [(103, False), (104, True), (None, False)])
def test_a_node_more_than_three_blocks_behind_is_rejected(highest: int | None, is_behind: bool) -> None:
    with serve(FakeChain(100, []), NETWORK) as reader:
        question = Question([ADDRESS], [], highest, last_head=highest)
        if is_behind:
            with pytest.raises(NodesUnreachable, match="is 4 blocks behind"):
                reader.view(question)
        else:
            assert reader.view(question).head.number == 100


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


@pytest.mark.parametrize(
    ("by", "fields", "is_proven"),
    [
        (KEY, {}, True),
        (KEY, {"gasPrice": GWEI}, True),
        # The same key on another chain, or for any chain.
        (KEY, {"chainId": 1}, False),
        (KEY, None, False),
        (OTHER_KEY, {}, False),
    ],
)
def test_a_signature_of_the_account_for_the_chain_proves_a_use(
    by: str, fields: dict[str, Any] | None, is_proven: bool
) -> None:
    plain = {"to": RECEIVER, "value": 1, "gas": 21_000, "gasPrice": GWEI, "nonce": 0}
    unprotected = bytes(Account.sign_transaction(plain, by).raw_transaction)
    chosen = unprotected if fields is None else signed(by, 0, **fields)
    chain = FakeChain(100, [95], changes=entry(chosen) | {"from": ADDRESS.lower()})
    with serve(chain, NETWORK) as reader:
        found = search(reader, ADDRESS, 0, 90, 100).found
    assert found is not None
    assert (found.hash, found.is_proven) == (hash_of(chosen), is_proven)


@pytest.mark.parametrize("changes", [{"input": "0xzz"}, {"hash": "<b>"}, {"hash": "0x" + "ab" * 40}, {"gas": None}])
def test_an_entry_that_cannot_be_read_is_skipped(changes: dict[str, Any]) -> None:
    with serve(FakeChain(100, [95], changes=changes), NETWORK) as reader:
        assert search(reader, ADDRESS, 0, 90, 100) == Search(None, 100)
    # Nor is one of a block that the node does not have, or that has no list.
    with serve(FakeChain(95, [98]), NETWORK) as reader:
        assert search(reader, ADDRESS, 0, 90, 100) == Search(None, 95)
    answer = {"number": "0x5f", "hash": "0x" + "ab" * 32, "transactions": 5}
    assert searching._find(answer, ADDRESS, 0, 1) is None


def test_final_counts_come_from_earlier_looks_where_the_state_is_pruned() -> None:
    final_counts._samples.clear()
    chain = FakeChain(100, [99, 105], state_blocks=0)
    with serve(chain, NETWORK) as reader:

        def counts() -> Counts:
            question = Question([ADDRESS], last_head=chain.head)
            return final_counts.complete(reader, reader.view(question)).counts[ADDRESS]

        assert counts() == Counts(1, 1)
        chain.head = 110
        assert counts() == Counts(2, 2)
        chain.head = 111
        assert counts() == Counts(2, 2, 1, 100)
        chain.head = 125
        assert counts() == Counts(2, 2, 2, 111)


@pytest.mark.parametrize("block_hash", ["0xaa\x00", "", None, 7, f"0x{1:065x}"])
def test_a_receipt_without_the_hash_of_a_block_is_none(block_hash: Any) -> None:
    answer = {"blockNumber": "0x1", "status": "0x1", "blockHash": block_hash, "transactionHash": "0xaa"}
    assert read_receipt("0xaa", answer) is None
    assert read_receipt("0xaa", answer | {"blockHash": f"0x{1:064x}"}) is not None


def test_a_view_has_the_final_count_of_the_last_head() -> None:
    with serve(FakeChain(100, [85, 89, 95]), NETWORK) as reader:
        view = reader.view(Question([ADDRESS], [85], 99, last_head=99))
    assert (view.head.number, view.final_number) == (100, 90)
    assert view.counts == {ADDRESS: Counts(3, 3, 2, 89)}
    assert view.hashes == {number: f"0x{number:064x}" for number in (85, 89, 100)}
    # A node that is behind may still have a block at that height that another one replaces.
    with serve(FakeChain(97, [80]), NETWORK) as reader:
        for last_head, expected in ((97, Counts(1, 1, 1, 87)), (98, Counts(1, 1, None, None))):
            assert reader.view(Question([ADDRESS], [], last_head, last_head=last_head)).counts == {ADDRESS: expected}
