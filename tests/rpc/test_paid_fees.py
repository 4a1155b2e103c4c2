"""Fees really paid, on a real node: never more than is expected, and hardly less."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from eth_abi.abi import encode
from pytest_django import Settings

from chain.networks import networks
from relayers.models import Relayer
from rpc.dispatch import answer
from tests.chain import independent
from tests.chain.fixtures import Deployed
from tests.chain.hardhat import (
    EMPTY_BLOB_HASH,
    GAS_PRICE_ORACLE,
    NODE_INTERFACE,
    Chain,
    contracts,
    encode_call,
    with_blobs,
)
from tests.chain.independent import KINDS, Transaction, address_of, authorization
from tests.relayers import factories as relayers
from tests.rpc.factories import AUTHORITY, KEYS, ROLLUPS, fee_networks

__all__ = ["fee_networks"]

BASE_FEE = 1_234_567_891
# Far above what anything here uses; what is left of it is not paid.
GAS_LIMIT = 1_000_000
SLOT = 5
ACTIONS = ["transfer", "token transfer", "burn", "write", "creation"]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fee_networks")]


@pytest.fixture
def relayer(chain: Chain, deployed: Deployed, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Relayer:
    """A relayer that offers no more than the market, and whose account and others have tokens."""
    settings.EXTENSIONS = ["quotes"]
    monkeypatch.setitem(networks(), "none", replace(networks()["none"], tip_floor=0))
    for key in KEYS:
        chain.send(deployed.token_6, "mint(address,uint256)", address_of(key), 10**6)
    chain.set_next_base_fee(BASE_FEE)
    return relayers.relayer(rpc_urls=[{"url": chain.url, "weight": 100}], network="none")


def work(deployed: Deployed, action: str) -> dict[str, Any]:
    """Return the fields of a transaction that does this."""
    receiver = bytes.fromhex("be" * 20)
    token, misbehaving = bytes.fromhex(deployed.token_6[2:]), bytes.fromhex(deployed.misbehaving[2:])
    fields: dict[str, dict[str, Any]] = {
        "transfer": {"to": receiver, "value": 10**18 + 1},
        "token transfer": {
            "to": token,
            "data": encode_call("transfer(address,uint256)", "0x" + receiver.hex(), 123_456),
        },
        "burn": {"to": misbehaving, "data": encode_call("burn(uint256)", 43_210)},
        "write": {"to": misbehaving, "data": encode_call("write(uint256,uint256,uint256)", SLOT, 3, 2**255)},
        "clear": {"to": misbehaving, "data": encode_call("write(uint256,uint256,uint256)", SLOT, 3, 0)},
        "creation": {"data": contracts()["Aggregator"].creation + encode(["uint8"], [8])},
    }
    return fields[action]


def build(chain: Chain, deployed: Deployed, kind: str, action: str, sender: str) -> Transaction:
    """Make a transaction that offers what the market asks for, and no more."""
    base_fee, tip = independent.market(chain)
    assert base_fee == BASE_FEE
    misbehaving = bytes.fromhex(deployed.misbehaving[2:])
    own: dict[str, dict[str, Any]] = {
        "2930": {"access_list": ((misbehaving, (bytes(32),)),)},
        "1559": {"access_list": ((misbehaving, ()),)},
        "4844": {"blob_price": 10**9, "blob_hashes": (bytes.fromhex(EMPTY_BLOB_HASH[2:]),) * 2},
        "7702": {"authorizations": (authorization(AUTHORITY, 31337, misbehaving, 0),)},
    }
    return Transaction(
        nonce=independent.quantity(chain, "eth_getTransactionCount", sender, "latest"),
        gas=GAS_LIMIT,
        tip=tip,
        gas_price=base_fee + tip,
        **KINDS[kind] | own.get(kind, {}) | work(deployed, action),
    )


def quoted(relayer: Relayer, transaction: bytes) -> tuple[int, int]:
    """Return what is expected and the maximum, in wei."""
    params = {"fee_tokens": ["COIN"], "network": relayer.network, "transaction": "0x" + transaction.hex()}
    native = answer(relayer, "feeQuote", params)["result"]["native"]
    return int(native["expected"]), int(native["maximum"])


def paid(chain: Chain, transaction: Transaction, key: str) -> tuple[int, dict[str, Any]]:
    """Send a transaction; return what it has cost its sender on this chain, and its receipt."""
    blob_price = independent.quantity(chain, "eth_blobBaseFee")
    before = independent.quantity(chain, "eth_getBalance", address_of(key), "latest")
    raw = transaction.signed(key)
    receipt = chain.receipt(chain.send_raw(with_blobs(raw) if transaction.type == 3 else raw))
    after = independent.quantity(chain, "eth_getBalance", address_of(key), "latest")
    cost = int(receipt["gasUsed"], 16) * int(receipt["effectiveGasPrice"], 16)
    cost += len(transaction.blob_hashes) * independent.BLOB_GAS * blob_price
    assert (receipt["status"], before - after - transaction.value) == ("0x1", cost)
    return cost, receipt


def encoded(transaction: Transaction, key: str) -> bytes:
    """Encode a transaction as the relayer's own, which it has not signed yet, or as another account's."""
    return transaction.unsigned() if key == relayers.KEY else transaction.signed(key)


CHOICES = [
    # The node's first blob takes it half a minute.
    pytest.param(kind, action, marks=[pytest.mark.long] if kind == "4844" else [])
    for kind, action in itertools.product(KINDS, ACTIONS)
    if action != "creation" or kind not in {"4844", "7702"}
]


@pytest.mark.parametrize("key", KEYS[:2], ids=["unsigned", "signed"])
@pytest.mark.parametrize(("kind", "action"), CHOICES)
def test_what_is_paid_is_what_was_expected_but_for_a_unit_of_gas(
    chain: Chain, deployed: Deployed, relayer: Relayer, kind: str, action: str, key: str
) -> None:
    transaction = build(chain, deployed, kind, action, address_of(key))
    expected, maximum = quoted(relayer, encoded(transaction, key))
    cost, receipt = paid(chain, transaction, key)
    assert int(receipt["type"], 16) == transaction.type
    assert int(receipt["effectiveGasPrice"], 16) == transaction.gas_price
    # The node answers with one unit more than is used where it has searched for it.
    assert 0 <= expected - cost <= transaction.gas_price
    assert cost <= maximum


@pytest.mark.parametrize("oracle", [name for name, kind in ROLLUPS.items() if kind in {"op-stack", "mantle"}])
@pytest.mark.parametrize(("kind", "action"), [("legacy", "transfer"), ("1559", "write"), ("2930", "creation")])
def test_what_is_paid_on_the_op_stack_is_what_was_expected_but_for_a_unit_of_gas(
    chain: Chain, deployed: Deployed, relayer: Relayer, kind: str, action: str, oracle: str
) -> None:
    relayer.network = network = ROLLUPS[oracle]
    chain.set_code(GAS_PRICE_ORACLE, oracle)
    chain.send(GAS_PRICE_ORACLE, "set(uint256,uint256,uint256,uint256)", 98_765, 4_321, 765_432, 54_321)
    chain.send(GAS_PRICE_ORACLE, "setOperatorFee(uint256,uint256)", 4_321_987, 10**9 + 7)
    if network == "mantle":
        chain.send(GAS_PRICE_ORACLE, "setTokenRatio(uint256)", 3_789)
    chain.set_next_base_fee(BASE_FEE)
    transaction = build(chain, deployed, kind, action, relayers.ADDRESS)
    expected, _ = quoted(relayer, transaction.unsigned())
    cost, receipt = paid(chain, transaction, relayers.KEY)
    gas = int(receipt["gasUsed"], 16)
    # The chain is no rollup: what its oracle says is what one would have taken.
    l1_fee = independent.l1_fee_of(chain, transaction, network, is_signed=False)
    of_operator = [independent.operator_fee(chain, network, gas + more) for more in (0, 1)]
    assert l1_fee > 98_765
    assert cost + l1_fee + of_operator[0] <= expected <= cost + l1_fee + of_operator[1] + transaction.gas_price


def test_the_expected_fee_is_paid_on_arbitrum_without_l1_gas_or_tip(
    chain: Chain, deployed: Deployed, relayer: Relayer
) -> None:
    relayer.network = "arbitrum"
    chain.set_code(NODE_INTERFACE, "NodeInterface")
    chain.send(NODE_INTERFACE, "set(uint64,uint64,uint256,uint256)", 500, 7_000, 10**8, 10**10)
    chain.set_next_base_fee(BASE_FEE)
    made = build(chain, deployed, "1559", "write", relayers.ADDRESS)
    assert made.tip > 0
    expected, _ = quoted(relayer, made.unsigned())
    # Arbitrum drops tips, which this chain does not.
    assert paid(chain, replace(made, tip=0), relayers.KEY)[0] == expected


def test_gas_that_is_given_back_leaves_what_was_expected_above_what_is_paid(
    chain: Chain, deployed: Deployed, relayer: Relayer
) -> None:
    chain.send(deployed.misbehaving, "write(uint256,uint256,uint256)", SLOT, 3, 1)
    chain.set_next_base_fee(BASE_FEE)
    transaction = build(chain, deployed, "1559", "clear", relayers.ADDRESS)
    expected, _ = quoted(relayer, transaction.unsigned())
    cost, _ = paid(chain, transaction, relayers.KEY)
    # At most a fifth of what was used is given back.
    assert cost < expected <= cost * 5 // 4 + transaction.gas_price
    assert expected % transaction.gas_price == 0


@pytest.mark.parametrize("kind", ["legacy", "1559"])
def test_a_transfer_that_is_signed_with_the_gas_it_needs_is_quoted_exactly(
    chain: Chain, deployed: Deployed, relayer: Relayer, kind: str
) -> None:
    """This node estimates one more than a transfer needs, whatever its limit is."""
    made = replace(build(chain, deployed, kind, "transfer", address_of(KEYS[1])), gas=21_000, access_list=())
    cost = 21_000 * made.gas_price
    assert quoted(relayer, made.signed(KEYS[1])) == (cost, cost)
    assert paid(chain, made, KEYS[1])[0] == cost


def test_the_default_margins_cover_a_base_fee_that_rises_by_an_eighth(
    chain: Chain, deployed: Deployed, relayer: Relayer
) -> None:
    made = build(chain, deployed, "1559", "write", relayers.ADDRESS)
    blank = replace(made, gas=0, gas_price=0, tip=0)
    _, maximum = quoted(relayer, blank.unsigned())
    # As much as a full block can raise it.
    chain.set_next_base_fee(BASE_FEE + BASE_FEE // 8)
    cost, receipt = paid(chain, replace(made, gas_price=made.gas_price + BASE_FEE), relayers.KEY)
    gas, price = int(receipt["gasUsed"], 16), BASE_FEE + BASE_FEE // 8 + made.tip
    assert cost == gas * price
    # The next base fee with a fifth more, and gas with a tenth more.
    assert maximum == independent.ceil((gas * 11 * (BASE_FEE * 6 + made.tip * 5), 50))
    assert cost < maximum
