"""What a fee adds up to in the network's coin: the gas that is paid for, its buffer and its limits, and blobs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chain import encoded
from tests.chain.answering_node import (
    ChangeNetwork,
    change_network,
    node_answering,
    set_defaults,
    unsigned,
    unsigned_with_blobs,
)
from tests.rpc.estimates import ask, failure, fee, quote, relayer_at

__all__ = ["change_network", "set_defaults"]

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def plain_prices(settings: Any, set_defaults: ChangeNetwork) -> None:
    """Let a unit of gas cost 100 and a tip of 5, expected and at most; and feeQuote show the parts."""
    set_defaults(tip_floor=0, base_fee_margin_bps=0)
    settings.EXTENSIONS = ["quotes"]


def gas_of(transaction: str = "", *, gas: int = 21_000, **changes: Any) -> Any:
    """Return the gas of a quote, or its error, at a node that estimates so much."""
    zksync = {"result": {"gas_limit": hex(gas)}}
    with node_answering(eth_estimateGas={"result": hex(gas)}, zks_estimateFee=zksync) as node:
        answer = quote(relayer_at(node.url, **changes), transaction)
    return answer["result"]["gas"] if "result" in answer else answer


def gas(estimate: int, buffer: int, expected: int, maximum: int) -> dict[str, str]:
    parts = {"estimate": estimate, "buffer": buffer, "expected": expected, "maximum": maximum}
    return {name: str(part) for name, part in parts.items()}


def cannot_be_included(reason: str) -> dict[str, Any]:
    return failure(-32003, "Execution reverted", f"The transaction cannot be included: {reason}.")


def signed(limit: int) -> str:
    return encoded.text(encoded.signed(2, gas=limit, data="0x", accessList=[]))


@pytest.mark.parametrize(
    ("estimate", "buffer"),
    # A transfer costs what it costs; anything else has a tenth more, rounded up in what is shown.
    [(21_000, 0), (20_999, 2_100), (21_001, 2_101)],
)
def test_only_a_transfer_has_no_buffer(estimate: int, buffer: int) -> None:
    assert gas_of(gas=estimate) == gas(estimate, buffer, estimate, estimate + buffer)


@pytest.mark.parametrize(("limit", "maximum"), [(30_000, 30_000), (32_000, 32_000), (34_000, 33_000)])
def test_a_signed_transactions_own_limit_bounds_the_maximum(limit: int, maximum: int) -> None:
    assert gas_of(signed(limit), gas=30_000) == gas(30_000, maximum - 30_000, 30_000, maximum)


def test_a_signed_limit_below_the_estimate_by_more_than_one_cannot_be_included() -> None:
    assert gas_of(signed(29_998), gas=30_000) == cannot_be_included("its gas limit is 29998, and it needs 30000")


def test_an_estimate_may_be_one_more_than_a_signed_transaction_needs() -> None:
    assert gas_of(signed(21_000), gas=21_001) == gas(21_001, 0, 21_000, 21_000)


def test_zksyncs_estimate_is_more_than_is_needed_and_a_lower_limit_may_do(change_network: ChangeNetwork) -> None:
    change_network(kind="zksync")
    assert gas_of(signed(25_000), gas=30_000) == gas(30_000, 0, 25_000, 25_000)


def test_gas_is_estimated_with_the_limit_of_a_signed_transaction_only() -> None:
    with node_answering() as node:
        relayer = relayer_at(node.url)
        for transaction in (signed(30_000), unsigned(gas=30_000)):
            ask(relayer, transaction=transaction)
    calls = [call for batch in node.requests for call in (batch if isinstance(batch, list) else [batch])]
    limits = [call["params"][0].get("gas") for call in calls if call["method"] == "eth_estimateGas"]
    assert limits == [hex(30_000), None]


@pytest.mark.parametrize(("estimate", "maximum"), [(45_000, 49_500), (46_000, 50_000), (50_000, 50_000)])
def test_the_buffer_does_not_go_beyond_what_the_network_takes(
    change_network: ChangeNetwork, estimate: int, maximum: int
) -> None:
    change_network(tx_gas_cap=50_000)
    assert gas_of(gas=estimate) == gas(estimate, maximum - estimate, estimate, maximum)


def test_more_gas_than_the_network_takes_cannot_be_included(change_network: ChangeNetwork) -> None:
    change_network(tx_gas_cap=50_000)
    assert gas_of(gas=50_001) == cannot_be_included("it needs 50001 gas, above the maximum of 50000 on hardhat")


@pytest.mark.parametrize(
    ("charge", "transaction", "expected", "maximum"),
    [
        # All of its limit, as Monad charges: its own if it is signed, else what the relayer would set.
        (10_000, signed(100_000), 100_000, 100_000),
        (10_000, unsigned(gas=100_000), 33_000, 33_000),
        # Half of what is left.
        (5_000, signed(100_000), 65_000, 66_500),
        (5_000, unsigned(gas=100_000), 31_500, 33_000),
    ],
)
def test_unused_gas_is_paid_for_where_the_network_charges_it(
    change_network: ChangeNetwork, charge: int, transaction: str, expected: int, maximum: int
) -> None:
    change_network(unused_gas_charge_bps=charge)
    assert gas_of(transaction, gas=30_000) == gas(30_000, 3_000, expected, maximum)


@pytest.mark.parametrize("answer", [None, 21_000, "0x0"])
def test_an_estimate_that_is_no_amount_of_gas_is_insufficient_data(answer: Any) -> None:
    with node_answering(eth_estimateGas={"result": answer}) as node:
        assert ask(relayer_at(node.url)) == failure(
            -32005, "Insufficient data", "The node did not report the gas of the transaction."
        )


def test_without_arbitrums_l1_gas_which_is_for_display_there_is_a_fee(change_network: ChangeNetwork) -> None:
    change_network(kind="arbitrum")
    with node_answering(eth_call={"result": "0x"}) as node:
        # 21,000 gas with a tenth more, as gas pays for L1, at 100.
        assert ask(relayer_at(node.url)) == fee("0.00000000000231")


def test_what_a_rollup_charges_beside_gas_is_part_of_the_fee(change_network: ChangeNetwork) -> None:
    change_network(kind="op-stack")
    with node_answering(eth_call={"result": f"0x{1_000:064x}"}) as node:
        relayer = relayer_at(node.url)
        result = quote(relayer)["result"]
        # The maximum of what L1 costs is a tenth more.
        assert result["l1_fee"] == {"expected": "1000", "maximum": "1100"}
        assert result["operator_fee"] == {"expected": "1000", "maximum": "1000"}
        # 21,000 gas at 105, and both.
        assert result["native"] == {"symbol": "ETH", "decimals": 18, "expected": "2207000", "maximum": "2207100"}
        assert ask(relayer) == fee("0.0000000000022071")


def test_a_blob_costs_its_own_gas_at_its_own_price(set_defaults: ChangeNetwork) -> None:
    set_defaults(tip_floor=0, base_fee_margin_bps=5_000)
    with node_answering(eth_blobBaseFee={"result": "0x3"}) as node:
        relayer = relayer_at(node.url)
        result = quote(relayer, unsigned_with_blobs(2))["result"]
        # Two blobs of 131,072 gas at 3, and at most a half more.
        assert result["blob_fee"] == {"expected": "786432", "maximum": "1179648"}
        # 21,000 gas at 100 with a half more and a tip of 5.
        assert ask(relayer, transaction=unsigned_with_blobs(2)) == fee("0.000000000004434648")


def blob_transaction(make: Any, price: int) -> str:
    return encoded.text(make(3, data="0x", maxFeePerBlobGas=price, maxFeePerGas=105, maxPriorityFeePerGas=5))


@pytest.mark.parametrize(
    ("make", "price", "maximum"),
    [
        (encoded.signed, 3, 3),
        (encoded.signed, 100, 6),
        (encoded.unsigned, 4, 4),
        (encoded.unsigned, 0, 6),
    ],
)
def test_a_transactions_own_price_of_blobs_bounds_the_maximum(
    set_defaults: ChangeNetwork, make: Any, price: int, maximum: int
) -> None:
    set_defaults(tip_floor=0, base_fee_margin_bps=10_000)
    with node_answering(eth_blobBaseFee={"result": "0x3"}) as node:
        result = quote(relayer_at(node.url), blob_transaction(make, price))["result"]
    assert result["blob_fee"] == {"expected": str(2 * 131_072 * 3), "maximum": str(2 * 131_072 * maximum)}


@pytest.mark.parametrize(("make", "price", "offer"), [(encoded.signed, 0, "0 gwei"), (encoded.unsigned, 2, "2 wei")])
def test_an_offer_below_the_blob_base_fee_cannot_be_included(make: Any, price: int, offer: str) -> None:
    with node_answering(eth_blobBaseFee={"result": "0x3"}) as node:
        assert ask(relayer_at(node.url), transaction=blob_transaction(make, price)) == cannot_be_included(
            f"it offers {offer} per blob gas, below the blob base fee of 3 wei"
        )
