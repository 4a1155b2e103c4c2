"""Signing with every type of signer, accepted by a real chain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings
from eth_account import Account
from eth_keys.constants import SECPK1_N
from eth_utils.address import to_checksum_address

from chain.transactions import Draft, Prices
from relayer_service.database.clock import database_now
from signers import signing as signer_signing
from signers.backends.base import Curve, SignerError
from signers.models import Signer
from tests.relayers import factories as relayer_factories
from tests.relayers.factories import ADDRESS
from tests.transactions import factories
from tests.transactions.hardhat import CHAIN_ID, GWEI, OTHER_ADDRESS, RECEIVER, LocalChain, hash_of
from tests.transactions.signer_servers import SERVERS, running_signer
from tests.transactions.single_turns import take_turn
from transactions.lanes import leasing, signing
from transactions.lanes.commits import LeaseLost
from transactions.models import Attempt, Lane

pytestmark = pytest.mark.django_db

LEGACY = Prices(gas_price=10 * GWEI)
DYNAMIC = Prices(max_fee=10 * GWEI, max_priority_fee=GWEI)
DRAFT = Draft(CHAIN_ID, 0, RECEIVER, 1, b"\xfe\xed", 100_000, DYNAMIC)
RICH = 10**24


def claimed_lane(chain: LocalChain, signer: Signer, address: str) -> Lane:
    nodes = [{"url": chain.url, "weight": 100}]
    relayer = relayer_factories.relayer(network="hardhat", rpc_urls=nodes, signer=signer, address=address)
    claimed = leasing.claim(factories.lane(relayer).pk)
    assert claimed is not None
    return claimed


def sender_of(raw: bytes) -> str:
    return str(Account.recover_transaction(raw))


def node_view(chain: LocalChain, transaction_hash: str) -> dict[str, Any]:
    """Return the fields of a transaction as the node has decoded them."""
    found = chain.rpc("eth_getTransactionByHash", transaction_hash)
    names = ("type", "nonce", "gas", "value", "gasPrice", "maxFeePerGas", "maxPriorityFeePerGas", "chainId")
    numbers = {name: int(found[name], 16) for name in names if found.get(name) is not None}
    if numbers["type"] == 0:
        # EIP-155: the chain is part of v.
        numbers["chainId"] = (int(found["v"], 16) - 35) // 2
    to = to_checksum_address(found["to"]) if found["to"] else ""
    return numbers | {"from": to_checksum_address(found["from"]), "to": to, "input": found["input"]}


def expected_view(draft: Draft, sender: str) -> dict[str, Any]:
    """Return what a node says of a draft that is signed and not mined."""
    prices = {"type": 0, "gasPrice": draft.prices.gas_price}
    if draft.prices.gas_price is None:
        # Nodes name the maximum as the price until it is mined.
        max_fee = draft.prices.max_fee
        prices = {"type": 2, "gasPrice": max_fee, "maxFeePerGas": max_fee}
        prices["maxPriorityFeePerGas"] = draft.prices.max_priority_fee
    common = {"nonce": draft.nonce, "gas": draft.gas, "value": draft.value, "chainId": draft.chain_id}
    return prices | common | {"from": sender, "to": draft.to, "input": f"0x{draft.data.hex()}"}


@pytest.mark.parametrize("name", SERVERS)
def test_the_chain_accepts_what_a_signer_signs(
    name: str, local_chain: LocalChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    types = [name for name in settings.SIGNER_BACKENDS if signer_signing.backend_class(name).curve == Curve.SECP256K1]
    assert types == list(SERVERS)
    with running_signer(name, monkeypatch) as signer:
        address = signer_signing.backend_for(signer).identity()
        local_chain.rpc("hardhat_setBalance", address, hex(RICH))
        for nonce, prices in enumerate((LEGACY, DYNAMIC)):
            draft = replace(DRAFT, prices=prices, nonce=nonce)
            signed = signing.sign(signer, address, draft)
            assert (signed.draft, signed.hash) == (draft, hash_of(signed.raw))
            assert local_chain.send_raw(signed.raw) == signed.hash
            assert node_view(local_chain, signed.hash) == expected_view(draft, address)
            assert sender_of(signed.raw) == address
            assert int(local_chain.rpc("eth_getTransactionByHash", signed.hash)["s"], 16) <= SECPK1_N // 2
            local_chain.mine()
            assert local_chain.is_mined(signed.hash)
        with pytest.raises(SignerError) as refused:
            signing.sign(signer, RECEIVER, DRAFT)
        assert str(refused.value) == f"The signer's address is not {RECEIVER} any more."


def test_a_signer_with_another_address_commits_nothing(local_chain: LocalChain) -> None:
    lane = claimed_lane(local_chain, relayer_factories.signer(), OTHER_ADDRESS)
    row = factories.transaction(lane)

    next_turn = take_turn(lane)

    row.refresh_from_db()
    lane.refresh_from_db()
    assert (next_turn.failed, row.status, row.nonce, lane.next_nonce) == (True, "pending", None, 0)
    assert (lane.waiting, lane.waiting_details) == ("signer", f"The signer's address is not {OTHER_ADDRESS} any more.")
    assert (Attempt.objects.count(), local_chain.waiting()) == (0, [])


@pytest.fixture
def random_signer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Signer]:
    """A KMS whose signatures of one digest differ each time."""
    with running_signer("provider_b_kms", monkeypatch) as made:
        yield made


@pytest.mark.parametrize("is_overtaken", [False, True])
def test_of_signatures_of_the_same_row_that_differ_one_is_committed(
    random_signer: Signer, local_chain: LocalChain, monkeypatch: pytest.MonkeyPatch, is_overtaken: bool
) -> None:
    """A worker crashes after signing, or hangs until its lease ends and another one has done all its work."""
    lane = claimed_lane(local_chain, random_signer, ADDRESS)
    row = factories.transaction(lane)
    sign, made = signing.sign, []

    def interrupted(*args: Any) -> signing.Signed:
        made.append(sign(*args))
        if len(made) > 1:
            return made[-1]
        if not is_overtaken:
            raise KeyboardInterrupt
        Lane.objects.filter(pk=lane.pk).update(due_at=database_now())
        other = leasing.claim(lane.pk)
        assert other is not None
        take_turn(other)
        return made[0]

    monkeypatch.setattr("transactions.lanes.turn.sign", interrupted)
    with pytest.raises(LeaseLost if is_overtaken else KeyboardInterrupt):
        take_turn(lane)
    if not is_overtaken:
        assert Attempt.objects.count() == 0
        take_turn(lane)

    lost, kept = made
    assert (lost.draft, lost.raw != kept.raw) == (kept.draft, True)
    assert [(each.transaction, bytes(each.raw), each.hash) for each in Attempt.objects.all()] == [
        (row, kept.raw, kept.hash)
    ]
    assert local_chain.waiting() == [kept.hash]
