"""The size of a signed transaction: what nodes would refuse is not accepted, exactly up to the network's limit."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chain import limits
from chain.networks import networks
from chain.transactions import Draft, NotATransaction, Prices
from tests.amounts import amount
from tests.api import Api
from tests.contract import bodies
from tests.relayers import factories
from tests.transactions.hardhat import LocalChain, signed
from tests.transactions.lane_values import network as network_with
from tests.transactions.rest.requests import PATH, RECEIVER, TRANSFER
from transactions.models import Transaction
from transactions.records.payloads import unsigned

# Beside 1 byte of value and the receiver, with the chain IDs of these networks.
OVERHEAD = {"sepolia": 187, "arbitrum-one": 186, "hardhat": 186}
MAXIMUM = {"sepolia": 131_072, "arbitrum-one": 95_000, "hardhat": 131_072}
WORDS = st.integers(1, 2**256 - 1)
ABOVE = "it is up to 1 bytes above the maximum of {} bytes of a signed transaction on {}: shorten its data"


def longest(name: str) -> bytes:
    """Return the longest data that fits on a network."""
    return bytes(MAXIMUM[name] - OVERHEAD[name])


@settings(max_examples=amount(50, 200))
@given(
    nonce=st.integers(0, 2**64 - 1),
    to=st.sampled_from([RECEIVER, ""]),
    value=st.integers(0, 2**256 - 1),
    data=st.binary(max_size=60) | st.integers(60, 70_000).map(bytes),
    gas=st.integers(0, 2**63 - 1),
    prices=st.builds(Prices, gas_price=WORDS) | st.builds(Prices, max_fee=WORDS, max_priority_fee=WORDS),
    signature=st.tuples(st.integers(0, 1), WORDS, WORDS),
)
def test_no_signed_transaction_is_longer_than_computed(
    nonce: int, to: str, value: int, data: bytes, gas: int, prices: Prices, signature: tuple[int, int, int]
) -> None:
    network = networks()["sepolia"]
    for is_legacy in (False, True):
        requested = unsigned(network, to, value, data, 0, Prices(), is_legacy=is_legacy)
        raw = Draft(network.chain_id, nonce, to, value, data, gas, prices).signed(*signature)
        assert len(raw) <= limits.maximum_bytes(requested)


@pytest.mark.parametrize("name", MAXIMUM)
def test_data_fits_up_to_the_limit_at_the_highest_prices(name: str) -> None:
    network, widest, prices = networks()[name], 2**256 - 1, Prices(max_fee=2**256 - 1, max_priority_fee=2**256 - 1)
    requested = unsigned(network, RECEIVER, 1, longest(name), 0, Prices(), is_legacy=False)
    limits.check_size(requested, network)
    draft = Draft(network.chain_id, 2**64 - 1, RECEIVER, 1, longest(name), 2**64 - 1, prices)
    assert len(draft.signed(1, widest, widest)) == network.max_tx_bytes == MAXIMUM[name]

    above = unsigned(network, RECEIVER, 1, longest(name) + b"\0", 0, Prices(), is_legacy=False)
    with pytest.raises(NotATransaction) as refused:
        limits.check_size(above, network)
    assert str(refused.value) == ABOVE.format(MAXIMUM[name], name)
    limits.check_size(above, network_with(name, max_tx_bytes=None))


def test_a_node_accepts_what_is_just_small_enough(local_chain: LocalChain) -> None:
    raw = signed(data=longest("hardhat"), gas=2_000_000, maxFeePerGas=10**11)
    sent = local_chain.send_raw(raw)
    local_chain.mine()
    assert len(raw) <= MAXIMUM["hardhat"]
    assert local_chain.receipt(sent)["status"] == "0x1"


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["sepolia", "arbitrum-one"])
def test_a_request_above_the_limit_is_refused(sender: Api, name: str) -> None:
    factories.relayer(network=name)
    fitting = {**TRANSFER, "value": 1, "data": longest(name).hex()}
    accepted = sender.post(PATH, fitting).body["data"]["id"]
    body = {**fitting, "data": fitting["data"] + "00"}
    text = ABOVE.format(MAXIMUM[name], name)
    for answer in (sender.post(PATH, body), sender("PUT", f"{PATH}/{accepted}", body)):
        assert (answer.status, bodies.uncoded(answer.body)) == (400, bodies.bad_request(f"data: {text}"))
    checks = sender.post(f"{PATH}/dry-run", body).body["data"]["checks"]
    assert text in str([check for check in checks if not check["allowed"]])
    assert Transaction.objects.get().payload_version == 1


@pytest.mark.django_db
def test_creation_code_has_the_limit_too(sender: Api) -> None:
    factories.relayer(network="metis")
    body = {"value": 1, "data": bytes(131_072 - 100).hex()}
    assert "of a signed transaction on metis" in str(sender.post(PATH, body).body)
