"""The local chain does what the tests of transactions rely on."""

from __future__ import annotations

import pytest

from tests.chain.hardhat import NodeError
from tests.relayers.factories import ADDRESS, KEY
from tests.transactions.hardhat import (
    GWEI,
    OTHER_ADDRESS,
    OTHER_KEY,
    RECEIVER,
    LocalChain,
    hash_of,
    record,
    record_then,
    signed,
)

IDENTIFIER = bytes([7]) * 32


def test_transactions_wait_until_a_block_is_mined(local_chain: LocalChain) -> None:
    sent = [local_chain.send_raw(signed(nonce=nonce)) for nonce in (1, 0)]
    assert (local_chain.head(), local_chain.count(), local_chain.waiting()) == (0, 0, sent[::-1])
    local_chain.mine()
    assert (local_chain.head(), local_chain.count(), local_chain.waiting()) == (1, 2, [])


def test_a_transaction_behind_a_gap_waits(local_chain: LocalChain) -> None:
    sent = local_chain.send_raw(signed(nonce=1))
    local_chain.mine(3)
    assert (local_chain.head(), local_chain.waiting(), local_chain.is_mined(sent)) == (3, [sent], False)


def test_dropped_transactions_can_be_sent_again(local_chain: LocalChain) -> None:
    transactions = [signed(nonce=nonce) for nonce in (0, 1, 2)]
    sent = [local_chain.send_raw(one) for one in transactions]
    local_chain.drop(sent[1])
    assert local_chain.waiting() == [sent[0], sent[2]]
    local_chain.drop()
    assert local_chain.waiting() == []
    assert [local_chain.send_raw(one) for one in transactions] == sent


def test_a_reorganisation_makes_other_blocks(local_chain: LocalChain) -> None:
    transaction = signed()
    snapshot = local_chain.snapshot()
    local_chain.send_raw(transaction)
    local_chain.mine(2)
    before = [local_chain.block_hash(number) for number in (1, 2)]
    local_chain.reorganise(snapshot, 2, [transaction])
    after = [local_chain.block_hash(number) for number in (1, 2)]
    assert local_chain.is_mined(hash_of(transaction))
    assert set(before).isdisjoint(after)


def test_a_reorganisation_can_leave_a_transaction_out(local_chain: LocalChain) -> None:
    snapshot = local_chain.snapshot()
    sent = local_chain.send_raw(signed())
    local_chain.mine()
    local_chain.reorganise(snapshot, 1)
    assert (local_chain.head(), local_chain.count(), local_chain.is_mined(sent)) == (1, 0, False)


def test_a_restarted_node_has_another_chain_at_the_same_url(local_chain: LocalChain) -> None:
    url = local_chain.url
    sent = local_chain.send_raw(signed())
    local_chain.mine()
    before = local_chain.block_hash(1)
    local_chain.restart()
    assert (local_chain.url, local_chain.head(), local_chain.count()) == (url, 0, 0)
    local_chain.mine()
    assert (local_chain.block_hash(1) != before, local_chain.is_mined(sent)) == (True, False)


def test_balances_and_base_fees_can_be_set(local_chain: LocalChain) -> None:
    local_chain.set_balance(ADDRESS, 5)
    local_chain.set_next_base_fee(77 * GWEI)
    local_chain.mine()
    block = local_chain.rpc("eth_getBlockByNumber", "latest", False)
    assert (local_chain.rpc("eth_getBalance", ADDRESS, "latest"), block["baseFeePerGas"]) == ("0x5", hex(77 * GWEI))


def test_an_account_is_used_by_somebody_else(local_chain: LocalChain) -> None:
    foreign = local_chain.send_from(KEY, 0, value=3)
    other = local_chain.send_from(OTHER_KEY, 0, gasPrice=3 * GWEI)
    local_chain.mine()
    assert [local_chain.receipt(one)["from"] for one in (foreign, other)] == [ADDRESS.lower(), OTHER_ADDRESS.lower()]
    assert local_chain.rpc("eth_getBalance", RECEIVER, "latest") == "0x4"


def test_the_ledger_counts_what_succeeds(local_chain: LocalChain) -> None:
    ledger = local_chain.deploy_ledger()
    for nonce, data in enumerate([record(IDENTIFIER), record_then(IDENTIFIER, False), record_then(IDENTIFIER, True)]):
        local_chain.send_from(KEY, nonce, to=ledger, data=data, value=0)
    local_chain.mine()
    assert (local_chain.count(), local_chain.recorded(ledger, IDENTIFIER)) == (3, 2)
    assert local_chain.recorded(ledger, bytes(32)) == 0


def test_with_automine_a_gap_is_refused(local_chain: LocalChain) -> None:
    local_chain.mine_at_once()
    with pytest.raises(NodeError, match="Nonce too high"):
        local_chain.send_raw(signed(nonce=1))
