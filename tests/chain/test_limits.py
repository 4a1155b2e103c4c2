"""What a network takes of a transaction, and the gas that one needs whatever it does."""

from __future__ import annotations

from typing import Any

import pytest

from chain import limits
from chain.transactions import NotATransaction, Transaction, decode
from tests.chain import encoded
from tests.chain.answering_node import (
    ChangeNetwork,
    change_network,
    local_network,
    node_answering,
    unsigned,
    unsigned_with_blobs,
)
from tests.rpc.estimates import ask, failure, fee, relayer_at

__all__ = ["change_network"]

KEYS = [{"address": encoded.RECEIVER, "storageKeys": [f"0x{number:064x}" for number in range(3)]}]
EMPTY_KEYS = [{"address": encoded.RECEIVER, "storageKeys": []}]


def signed(kind: int = 2, **changes: Any) -> Transaction:
    return decode(encoded.text(encoded.signed(kind, **{"data": "0x", "accessList": []} | changes)))


def blobs(count: int) -> Transaction:
    return decode(unsigned_with_blobs(count))


@pytest.mark.parametrize(
    ("transaction", "gas"),
    [
        (signed(), 21_000),
        # A zero is cheaper than another byte, and both cost at least what EIP-7623 asks.
        (signed(data="0x00"), 21_010),
        (signed(data="0x01"), 21_040),
        (signed(data="0x" + "0001" * 50), 23_500),
        # 21,000 and 2,400 and 1,900 for each key.
        (signed(accessList=EMPTY_KEYS), 23_400),
        (signed(accessList=KEYS), 29_100),
        # With much else to pay for, the data is below its floor: 16 for a byte and 4 for a zero.
        (signed(accessList=KEYS * 2, data="0x0100"), 37_220),
        (signed(4, accessList=[], authorizationList=[encoded.authorization()] * 3), 96_000),
        # To create costs 32,000 more, and 2 for each word of the code that has begun.
        (signed(to="", data="0x" + "01" * 32), 21_000 + 32_000 + 32 * 16 + 2),
        (signed(to="", data="0x" + "01" * 33), 21_000 + 32_000 + 33 * 16 + 4),
        # 2,000 bytes: the floor of 101,000 is above the 85,126.
        (signed(to="", data="0x" + "01" * 2_000), 101_000),
    ],
)
def test_the_gas_that_a_transaction_needs_whatever_it_does(transaction: Transaction, gas: int) -> None:
    assert limits.minimum_gas(transaction, local_network()) == gas


@pytest.mark.parametrize(
    ("transaction", "gas"),
    [
        (signed(data="0x00"), 21_004),
        (signed(data="0x01"), 21_016),
        (signed(to="", data="0x" + "01" * 2_000), 21_000 + 32_000 + 2_000 * 16 + 63 * 2),
    ],
)
def test_where_data_has_no_floor_it_costs_less(transaction: Transaction, gas: int) -> None:
    assert limits.minimum_gas(transaction, local_network(has_data_floor=False)) == gas


@pytest.mark.parametrize(
    ("field", "most", "transaction", "above", "reason"),
    [
        (
            "tx_gas_cap",
            16_777_216,
            signed(gas=16_777_216),
            signed(gas=16_777_217),
            "its gas limit is 16777217, above the maximum of 16777216 on hardhat",
        ),
        (
            "max_initcode",
            3,
            signed(to="", data="0x010203"),
            signed(to="", data="0x01020304"),
            "its creation code size is 4, above the maximum of 3 on hardhat",
        ),
        ("blobs_per_tx", 6, blobs(6), blobs(7), "its number of blobs is 7, above the maximum of 6 on hardhat"),
        ("blobs_per_tx", 0, signed(), blobs(1), "its number of blobs is 1, above the maximum of 0 on hardhat"),
    ],
)
def test_what_a_network_cannot_take_is_refused(
    field: str, most: int, transaction: Transaction, above: Transaction, reason: str
) -> None:
    network = local_network(**{field: most})
    limits.check(transaction, network)
    with pytest.raises(NotATransaction) as refused:
        limits.check(above, network)
    assert str(refused.value) == reason
    limits.check(above, local_network(**{field: None}))


def test_only_creation_code_has_a_maximum_size() -> None:
    limits.check(signed(data="0x01020304"), local_network(max_initcode=3))


@pytest.mark.django_db
def test_the_limits_of_the_network_are_checked_before_any_node_is_called(change_network: ChangeNetwork) -> None:
    # Those of EIP-3860, unless the network has another.
    change_network()
    with node_answering() as node:
        assert ask(relayer_at(node.url), transaction=unsigned(to=None, data=bytes(49_153))) == failure(
            -32602,
            "Invalid params",
            "transaction: its creation code size is 49153, above the maximum of 49152 on hardhat",
        )
    assert node.requests == []


@pytest.mark.django_db
def test_a_signed_gas_limit_below_the_minimum_fails_before_any_node_is_called() -> None:
    transaction = encoded.text(encoded.signed(0, gas=20_999, data="0x"))
    with node_answering() as node:
        assert ask(relayer_at(node.url), transaction=transaction) == failure(
            -32003,
            "Execution reverted",
            "The transaction cannot be included: its gas limit is 20999, and it needs at least 21000.",
        )
    assert node.requests == []


@pytest.mark.django_db
def test_without_estimation_an_unsigned_limit_must_cover_the_data_floor() -> None:
    with node_answering() as node:
        relayer = relayer_at(node.url, policies={"gas_limit_estimation": False})
        assert ask(relayer, transaction=unsigned(gas=24_999, data=b"\1" * 100)) == failure(
            -32003,
            "Execution reverted",
            "The transaction cannot be included: its gas limit is 24999, and it needs at least 25000.",
        )
        # 25,000 gas at 1,000,120.
        assert ask(relayer, transaction=unsigned(gas=25_000, data=b"\1" * 100)) == fee("0.000000025003")


@pytest.mark.django_db
def test_where_gas_is_estimated_the_limit_of_an_unsigned_one_has_no_say() -> None:
    with node_answering() as node:
        assert ask(relayer_at(node.url), transaction=unsigned(gas=1)) == fee("0.00000002100252")


@pytest.mark.django_db
def test_zksyncs_gas_is_not_ethereums(change_network: ChangeNetwork) -> None:
    change_network(kind="zksync")
    with node_answering() as node:
        relayer = relayer_at(node.url, policies={"gas_limit_estimation": False})
        # 1,000 gas at 120: tips are dropped.
        assert ask(relayer, transaction=unsigned(gas=1_000)) == fee("0.00000000000012")
