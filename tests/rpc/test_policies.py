"""What a relayer's policies and its place allow, through a call."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from eth_account import Account

from relayer_service.net.addresses import mask
from rpc.errors import NodesUnreachable
from tests.chain import faults
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


@pytest.mark.parametrize("written", [ALLOWED, ALLOWED.lower(), "0x" + ALLOWED[2:].upper()])
def test_a_receiver_on_the_list_is_allowed_in_whatever_case_it_is_written(written: str) -> None:
    assert ask_with({"whitelist_receivers": [OTHER, written]}, unsigned(to=ALLOWED)) == (FEE, 1)


@pytest.mark.parametrize("allowed", [[], [OTHER]])
def test_another_receiver_is_refused_before_a_node_is_asked(allowed: list[str]) -> None:
    assert ask_with({"whitelist_receivers": allowed}, unsigned(to=ALLOWED)) == (OTHER_RECEIVER, 0)


@pytest.mark.parametrize("allowed", [[], [OTHER], ["0x" + "00" * 20]])
def test_a_contracts_creation_is_refused_where_there_is_a_list(allowed: list[str]) -> None:
    assert ask_with({"whitelist_receivers": allowed}, unsigned(to=None)) == (NO_CREATION, 0)


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
    [(1_000_120, "0.00000002100252"), (1_000_119, "0.000000021002499"), (100, "0.0000000000021")],
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


def test_a_relayer_without_an_address_estimates_only_what_is_signed(chain: Chain) -> None:
    relayer = relayer_at(chain.url, address="")
    assert ask(relayer) == failure(
        -32005, "Insufficient data", "The relayer's address is unknown, and the transaction is not signed."
    )
    fields = {"chainId": 31337, "nonce": 0, "to": ALLOWED, "value": 1, "gas": 21_000, "gasPrice": 10**12}
    signed = Account.from_key(factories.KEY).sign_transaction(fields).raw_transaction
    # 21,000 gas at a price of 10^12: the node's estimate is one more, which the transaction does not need.
    assert ask(relayer, transaction="0x" + bytes(signed).hex()) == fee("0.021")


def test_a_network_that_the_service_does_not_know_is_insufficient_data() -> None:
    with node_answering() as node:
        relayer = relayer_at(node.url, network="private-1", chain_id=31337)
        assert ask(relayer, network="private-1") == failure(
            -32005,
            "Insufficient data",
            "Unknown network 'private-1'. Add it to NETWORKS_FILE.",
        )
        assert node.requests == []


@pytest.mark.parametrize("network", ["sepolia", "Hardhat", "EVM", "hardhat ", "31337"])
def test_another_network_is_a_mistake_of_the_callers(network: str) -> None:
    with node_answering() as node:
        assert ask(relayer_at(node.url), network=network) == failure(
            -32602, "Invalid params", "network: must be hardhat or evm"
        )


def test_the_network_may_be_named_by_its_type() -> None:
    with node_answering() as node:
        assert ask(relayer_at(node.url), network="evm") == FEE


@pytest.mark.parametrize("chain_id", [0, 1, 31338, 2**64])
def test_a_transaction_of_another_chain_is_a_mistake_of_the_callers(chain_id: int) -> None:
    answer, asked = ask_with({}, unsigned(chain_id=chain_id))
    assert (answer, asked) == (
        failure(-32602, "Invalid params", f"transaction: must be for chain 31337 (hardhat), not {chain_id}"),
        0,
    )


@pytest.mark.parametrize(
    "changes", [{"paused": True}, {"system_disabled": True, "disabled_reason_type": "NonceSyncFailed"}]
)
def test_a_relayer_that_is_paused_or_disabled_estimates_all_the_same(changes: dict[str, Any]) -> None:
    with node_answering() as node:
        assert ask(relayer_at(node.url, **changes)) == FEE


def test_a_node_that_is_down_is_reported_without_its_url(caplog: pytest.LogCaptureFixture) -> None:
    with faults.refusing() as url, caplog.at_level(logging.DEBUG):
        answer = ask(relayer_at(url))
    assert answer == failure(-32000, NodesUnreachable.message, "No node answered: connection failed.")
    assert f"The node {mask(url)} failed: connection failed" in caplog.text
    assert faults.SECRET not in caplog.text


def test_a_node_of_another_chain_is_not_believed(caplog: pytest.LogCaptureFixture) -> None:
    with node_answering(eth_chainId={"result": "0x1"}) as node, caplog.at_level(logging.DEBUG):
        answer = ask(relayer_at(node.url))
    assert answer == failure(-32000, "Nodes unreachable", "No node answered: on chain 1 instead of 31337.")
    assert faults.SECRET not in caplog.text


def test_the_next_node_is_asked_where_the_first_is_down() -> None:
    with faults.refusing() as url, node_answering() as node:
        assert ask(relayer_at(url, node.url)) == FEE


def test_a_relayer_without_a_node_to_ask_says_so() -> None:
    relayer = factories.relayer(network="hardhat", rpc_urls=[{"url": "http://127.0.0.1:9/x", "weight": 0}])
    assert ask(relayer) == failure(-32000, "Nodes unreachable", "No node answered: no RPC URL is configured.")
