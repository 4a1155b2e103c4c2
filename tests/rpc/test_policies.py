"""What a relayer's policies and its place allow, through a call."""

from __future__ import annotations

from typing import Any

import pytest
from eth_account import Account

from tests.chain.answering_node import HEAD, node_answering, unsigned
from tests.chain.hardhat import Chain
from tests.relayers import factories
from tests.rpc.estimates import ask, failure, fee, relayer_at

pytestmark = pytest.mark.django_db

# Letters in both cases, so that the case of each can be wrong.
ALLOWED = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"
OTHER = "0xB0B86991C6218B36C1D19D4A2E9EB0CE3606EB48"
# 21,000 gas at 100 with a margin of a fifth and the least tip of 1,000,000 wei.
FEE = fee("0.00000002100252")
OTHER_RECEIVER = failure(
    -32004, "Policy refused", "The relayer's policy whitelist_receivers does not allow this receiver."
)
NO_CREATION = failure(
    -32004, "Policy refused", "The relayer's policy whitelist_receivers does not allow creating contracts."
)


def ask_with(policies: dict[str, Any], transaction: str = "") -> tuple[dict[str, Any], int]:
    """Return the answer of a relayer with these policies, and how often its node was asked."""
    with node_answering() as node:
        return ask(relayer_at(node.url, policies=policies), transaction=transaction), len(node.requests)


@pytest.mark.parametrize("written", [ALLOWED.lower(), "0x" + ALLOWED[2:].upper()])
def test_a_receiver_on_the_list_is_allowed_in_whatever_case_it_is_written(written: str) -> None:
    assert ask_with({"whitelist_receivers": [OTHER, written]}, unsigned(to=ALLOWED)) == (FEE, 1)


@pytest.mark.parametrize("allowed", [[], [OTHER]])
def test_another_receiver_is_refused_before_a_node_is_asked(allowed: list[str]) -> None:
    assert ask_with({"whitelist_receivers": allowed}, unsigned(to=ALLOWED)) == (OTHER_RECEIVER, 0)


def test_a_contracts_creation_is_refused_where_there_is_a_list() -> None:
    assert ask_with({"whitelist_receivers": ["0x" + "00" * 20]}, unsigned(to=None)) == (NO_CREATION, 0)


def test_without_a_list_any_receiver_is_allowed_and_creation_too() -> None:
    assert ask_with({}, unsigned(to=OTHER)) == (FEE, 1)
    with node_answering() as node:
        assert ask(relayer_at(node.url, identifier="relayer-2"), transaction=unsigned(to=None)) == FEE


def test_a_transactions_own_gas_limit_counts_where_it_is_not_estimated() -> None:
    answer, _ = ask_with({"gas_limit_estimation": False}, unsigned(gas=50_000))
    # 50,000 gas and no buffer, at 1,000,120.
    assert answer["result"]["estimated_fee"] == "0.000000050006"


def test_a_transaction_without_a_gas_limit_has_no_fee_where_it_is_not_estimated() -> None:
    assert ask_with({"gas_limit_estimation": False}, unsigned(gas=0)) == (
        failure(
            -32602,
            "Invalid params",
            "transaction: gas is required: the relayer's policy gas_limit_estimation is false",
        ),
        0,
    )
    with node_answering() as node:
        estimated = relayer_at(node.url, identifier="relayer-2", policies={"gas_limit_estimation": True})
        assert ask(estimated, transaction=unsigned(gas=0)) == FEE


@pytest.mark.parametrize(
    ("cap", "wei"),
    [(1_000_119, "0.000000021002499"), (100, "0.0000000000021")],
)
def test_the_cap_lowers_the_price(cap: int, wei: str) -> None:
    assert ask_with({"gas_price_cap": cap}) == (fee(wei), 1)


def test_no_fee_is_zero() -> None:
    free = {"result": HEAD | {"baseFeePerGas": "0x0"}}
    with node_answering(eth_getBlockByNumber=free) as node:
        relayer = relayer_at(node.url, policies={"gas_price_cap": 0, "eip1559_pricing": False})
        assert ask(relayer) == fee("0.000000000000000001")


def test_a_single_price_is_asked_for_where_the_policy_says_so() -> None:
    with node_answering() as node:
        relayer = relayer_at(node.url, policies={"eip1559_pricing": False})
        # 21,000 gas at 105.
        assert ask(relayer) == fee("0.000000000002205")
        assert node.methods == [["eth_chainId", "eth_estimateGas", "eth_gasPrice", "eth_getBlockByNumber"]]


def test_a_relayer_without_an_address_estimates_what_is_signed(chain: Chain) -> None:
    relayer = relayer_at(chain.url, address="")
    fields = {"chainId": 31337, "nonce": 0, "to": ALLOWED, "value": 1, "gas": 21_000, "gasPrice": 10**12}
    signed = Account.from_key(factories.KEY).sign_transaction(fields).raw_transaction
    # 21,000 gas at a price of 10^12: the node's estimate is one more, which the transaction does not need.
    assert ask(relayer, transaction="0x" + bytes(signed).hex()) == fee("0.021")


@pytest.mark.parametrize("chain_id", [0, 2**64])
def test_a_transaction_of_another_chain_is_a_mistake_of_the_callers(chain_id: int) -> None:
    answer, asked = ask_with({}, unsigned(chain_id=chain_id))
    assert (answer, asked) == (
        failure(-32602, "Invalid params", f"transaction: must be for chain 31337 (hardhat), not {chain_id}"),
        0,
    )
