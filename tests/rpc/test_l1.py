"""What rollups charge for the chain below them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
import rlp
from eth_abi.abi import encode
from eth_account import Account
from hypothesis import given
from hypothesis import strategies as st

from relayers.chain import l1
from relayers.chain.answers import ChainError
from relayers.chain.attempts import Call
from relayers.chain.errors import InsufficientData
from relayers.chain.l1 import OperatorFee
from relayers.chain.networks import L1Fee
from relayers.chain.readings import Reading
from relayers.chain.transactions import decode
from rpc.fees.estimate import estimate
from rpc.relayer_lookup import RpcRelayer
from tests.relayers.factories import KEY
from tests.rpc.chain import GAS_PRICE_ORACLE, NODE_INTERFACE, Chain, encode_call
from tests.rpc.estimates import (
    RECEIVER,
    ChangeNetwork,
    ask,
    change_network,
    failure,
    local_network,
    relayer_at,
    unsigned,
)

__all__ = ["change_network"]

REVERTED = ChainError(3, "execution reverted", "0x")
HARDHAT_REVERTED = ChainError(-32603, "Error: Transaction reverted without a reason string", {"data": "0x"})
GARBAGE: list[Any] = [None, 5, [], {}, "0x", "0xzz", "0x01", "0x" + "00" * 31, ChainError(-32000, "no state")]
NO_L1_FEE = failure(-32005, "Insufficient data", "The network does not tell its L1 data fee.")


def op_stack(transaction: str = "") -> dict[str, Reading]:
    return l1.readings(local_network(l1_fee=L1Fee.OP_STACK), decode(transaction or unsigned()))


def word(number: int) -> str:
    return "0x" + encode(["uint256"], [number]).hex()


def operator_fee(at_zero: Any, at_much: Any) -> Any:
    return op_stack()["operator_fee"].read([at_zero, at_much])


@given(scalar=st.integers(0, 2**32 - 1), constant=st.integers(0, 2**64 - 1), gas=st.integers(0, 2**64 - 1))
def test_the_operator_fee_is_that_of_isthmus_for_any_gas(scalar: int, constant: int, gas: int) -> None:
    def fee(used: int) -> int:
        return used * scalar // 10**6 + constant

    assert operator_fee(word(fee(0)), word(fee(10**6))).of(gas) == fee(gas)


@given(scalar=st.integers(0, 2**32 - 1), constant=st.integers(0, 2**64 - 1), gas=st.integers(0, 2**64 - 1))
def test_the_operator_fee_is_that_of_jovian_for_any_gas(scalar: int, constant: int, gas: int) -> None:
    def fee(used: int) -> int:
        return used * scalar * 100 + constant

    assert operator_fee(word(fee(0)), word(fee(10**6))).of(gas) == fee(gas)


@pytest.mark.parametrize("contract", ["IsthmusGasPriceOracle", "JovianGasPriceOracle"])
def test_the_operator_fee_is_what_a_real_oracle_says(chain: Chain, contract: str) -> None:
    chain.set_code(GAS_PRICE_ORACLE, contract)
    chain.send(GAS_PRICE_ORACLE, "set(uint256,uint256,uint256)", 0, 4_321_987, 1_234)
    reading = op_stack()["operator_fee"]
    fee = reading.read([chain.rpc(call.method, *call.params) for call in reading.calls])
    for gas in (0, 1, 2, 999, 21_000, 999_999, 10**6, 10**6 + 1, 123_456_789, 2**40):
        assert fee.of(gas) == chain.call(GAS_PRICE_ORACLE, "getOperatorFee(uint256)(uint256)", gas)


@pytest.mark.parametrize("refusal", [REVERTED, HARDHAT_REVERTED])
def test_an_oracle_without_the_function_is_of_before_there_was_the_fee(refusal: ChainError) -> None:
    assert operator_fee(refusal, refusal) == OperatorFee(0, 0)


@pytest.mark.parametrize(
    ("at_zero", "at_much"),
    [(REVERTED, word(5)), (word(5), REVERTED), *((word(5), one) for one in GARBAGE), *((one, one) for one in GARBAGE)],
)
def test_an_operator_fee_that_is_half_told_is_not_guessed(at_zero: Any, at_much: Any) -> None:
    with pytest.raises(InsufficientData, match=r"^The network does not tell its operator fee.$"):
        operator_fee(at_zero, at_much)


def test_an_operator_fee_that_falls_with_the_gas_is_refused() -> None:
    with pytest.raises(InsufficientData, match=r"^The network's operator fee falls with the gas, which it cannot.$"):
        operator_fee(word(5), word(4))


@pytest.mark.parametrize("answer", [*GARBAGE, REVERTED])
def test_an_l1_fee_that_is_not_told_is_not_guessed(answer: Any) -> None:
    with pytest.raises(InsufficientData, match=r"^The network does not tell its L1 data fee.$"):
        op_stack()["l1_fee"].read([answer])


def test_an_l1_fee_may_be_as_large_as_a_chain_has_it() -> None:
    assert op_stack()["l1_fee"].read([word(2**256 - 1)]) == 2**256 - 1


def signed(fields: dict[str, Any]) -> str:
    base = {"chainId": 31337, "nonce": 3, "to": RECEIVER, "value": 1, "gas": 50_000, "data": b"\1\0\2"}
    return "0x" + bytes(Account.from_key(KEY).sign_transaction(base | fields).raw_transaction).hex()


TO = bytes.fromhex(RECEIVER[2:])
UNSIGNED_1559 = b"\x02" + rlp.encode([31337, 3, 1, 1_000, 50_000, TO, 1, b"\1\0\2", []])
UNSIGNED_155 = rlp.encode([3, 1_000, 50_000, TO, 1, b"\1\0\2", 31337, 0, 0])
UNSIGNED_PLAIN = rlp.encode([3, 1_000, 50_000, TO, 1, b"\1\0\2"])


@pytest.mark.parametrize(
    ("transaction", "expected"),
    [
        (signed({"maxFeePerGas": 1_000, "maxPriorityFeePerGas": 1}), UNSIGNED_1559),
        ("0x" + UNSIGNED_1559.hex(), UNSIGNED_1559),
        (signed({"gasPrice": 1_000}), UNSIGNED_155),
        ("0x" + UNSIGNED_155.hex(), UNSIGNED_155),
        ("0x" + UNSIGNED_PLAIN.hex(), UNSIGNED_PLAIN),
    ],
    ids=["signed 1559", "unsigned 1559", "signed legacy", "unsigned legacy", "plain legacy"],
)
def test_the_oracle_is_given_the_transaction_without_its_signature(transaction: str, expected: bytes) -> None:
    data = encode_call("getL1Fee(bytes)", expected)
    assert op_stack(transaction)["l1_fee"].calls == [
        Call("eth_call", [{"to": GAS_PRICE_ORACLE, "data": f"0x{data.hex()}"}, "latest"])
    ]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("contract", "of_operator"),
    [
        # Of 23,101 gas: 21,000 and 1, with a tenth more, rounded up.
        ("GasPriceOracle", 0),
        ("IsthmusGasPriceOracle", 23_102 * 1_500_000 // 10**6 + 11),
        ("JovianGasPriceOracle", 23_102 * 1_500_000 * 100 + 11),
    ],
)
def test_l1_fee_and_operator_fee_are_part_of_the_fee(
    chain: Chain, change_network: ChangeNetwork, contract: str, of_operator: int
) -> None:
    change_network(l1_fee="op-stack", tip_floor=0)
    chain.set_code(GAS_PRICE_ORACLE, contract)
    chain.send(GAS_PRICE_ORACLE, "set(uint256,uint256,uint256)", 1_000, 1_500_000, 11)
    relayer = relayer_at(chain.url, policies={"gas_price_cap": 0})
    encoded = bytes.fromhex(unsigned()[2:])
    of_data = 1_000 * sum(16 if byte else 4 for byte in encoded)
    # The price of gas is capped at nothing, so that the two fees are all there is.
    assert ask(relayer) == {
        "result": {
            "estimated_fee": f"{Decimal(of_data + of_operator).scaleb(-18):f}".rstrip("0"),
            "conversion_rate": "1",
            "method": "feeEstimate",
        }
    }


@pytest.mark.django_db
def test_a_rollup_without_its_oracle_is_insufficient_data(chain: Chain, change_network: ChangeNetwork) -> None:
    change_network(l1_fee="op-stack")
    assert ask(relayer_at(chain.url)) == NO_L1_FEE


@pytest.mark.django_db
@pytest.mark.parametrize(("to", "l1_gas"), [(RECEIVER, 20 * 4), (None, 20 * 4 + 500)])
def test_the_l1_gas_of_arbitrum_is_shown_and_not_added(
    chain: Chain, change_network: ChangeNetwork, to: str | None, l1_gas: int
) -> None:
    policies = {"gas_price_cap": 10, "gas_limit_estimation": False}
    transaction = unsigned(to=to, data=b"\0" * 4)
    relayer = relayer_at(chain.url, policies=policies)
    change_network(l1_fee="arbitrum")
    chain.set_code(NODE_INTERFACE, "NodeInterface")
    chain.send(NODE_INTERFACE, "set(uint64,uint64,uint256,uint256)", 20, 500, 10**8, 30 * 10**9)
    found = estimate(RpcRelayer.of(relayer), "ETH", "hardhat", transaction)
    # The transaction's own limit at the cap, and nothing else.
    assert (found.l1_gas, found.l1_fee, found.gas, found.units) == (l1_gas, 0, 50_000, 500_000)


@pytest.mark.django_db
def test_arbitrum_without_its_interface_is_insufficient_data(chain: Chain, change_network: ChangeNetwork) -> None:
    change_network(l1_fee="arbitrum")
    assert ask(relayer_at(chain.url)) == failure(-32005, "Insufficient data", "The network does not tell its L1 gas.")


def test_a_network_without_l1_fees_is_not_asked_for_any() -> None:
    assert l1.readings(local_network(), decode(unsigned())) == {}
