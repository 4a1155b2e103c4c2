"""The contracts do what those they stand for do, and what drives them too."""

from __future__ import annotations

import time
from typing import Any

import pytest
from eth_abi.abi import encode
from eth_account import Account

from tests.chain.fixtures import Deployed
from tests.chain.hardhat import (
    EMPTY_BLOB_HASH,
    GAS_PRICE_ORACLE,
    NODE_INTERFACE,
    Chain,
    NodeError,
    encode_call,
    with_blobs,
)
from tests.relayers.factories import ADDRESS, KEY

RECEIVER = "0x000000000000000000000000000000000000bEEF"
REASON = "Token: balance too low"


@pytest.mark.parametrize("decimals", [0, 6, 8, 18, 30, 255])
def test_a_token_has_the_decimals_that_it_is_given(chain: Chain, decimals: int) -> None:
    token = chain.deploy("Token", "A token", "TKN", decimals)
    assert chain.call(token, "decimals()(uint8)") == decimals
    assert [chain.call(token, f"{name}()(string)") for name in ("name", "symbol")] == ["A token", "TKN"]


def test_tokens_are_minted_moved_and_moved_for_another(chain: Chain, deployed: Deployed) -> None:
    token = deployed.token_6
    chain.send(token, "mint(address,uint256)", chain.sender, 100)
    chain.send(token, "transfer(address,uint256)", RECEIVER, 30)
    chain.send(token, "approve(address,uint256)", ADDRESS, 20)
    chain.send(token, "transferFrom(address,address,uint256)", chain.sender, RECEIVER, 15, **{"from": ADDRESS})
    assert [chain.call(token, "balanceOf(address)(uint256)", one) for one in (chain.sender, RECEIVER)] == [55, 45]
    assert chain.call(token, "allowance(address,address)(uint256)", chain.sender, ADDRESS) == 5
    with pytest.raises(NodeError, match=REASON):
        chain.send(token, "transfer(address,uint256)", RECEIVER, 56)
    with pytest.raises(NodeError, match="Token: allowance too low"):
        chain.send(token, "transferFrom(address,address,uint256)", chain.sender, RECEIVER, 6, **{"from": ADDRESS})


def test_a_feed_returns_the_values_that_were_set(chain: Chain, deployed: Deployed) -> None:
    chain.send(deployed.token_usd, "set(uint8,uint80,int256,uint256,uint256,uint80)", 5, 2**80 - 1, -3, 4, 6, 9)
    rounds = "latestRoundData()(uint80,int256,uint256,uint256,uint80)"
    assert chain.call(deployed.token_usd, rounds) == (2**80 - 1, -3, 4, 6, 9)
    assert chain.call(deployed.token_usd, "decimals()(uint8)") == 5
    before = int(time.time())
    chain.set_feed(deployed.token_usd, 10**30, decimals=18, age=60, answered_in_round=6)
    number, answer, started_at, updated_at, answered_in = chain.call(deployed.token_usd, rounds)
    assert (number, answer, answered_in) == (7, 10**30, 6)
    assert before - 60 <= started_at == updated_at <= time.time() - 60


def test_a_pair_returns_the_values_that_were_set(chain: Chain, deployed: Deployed) -> None:
    chain.send(deployed.pair, "set(uint112,uint112,uint32)", 2**112 - 1, 5, 9)
    assert chain.call(deployed.pair, "getReserves()(uint112,uint112,uint32)") == (2**112 - 1, 5, 9)
    tokens = [chain.call(deployed.pair, f"token{number}()(address)") for number in (0, 1)]
    assert tokens == [deployed.token_6.lower(), deployed.wrapped.lower()]


def test_an_older_op_stack_oracle_has_no_operator_fee(chain: Chain) -> None:
    chain.set_code(GAS_PRICE_ORACLE, "GasPriceOracle")
    chain.send(GAS_PRICE_ORACLE, "set(uint256,uint256,uint256,uint256)", 3, 0, 10**6, 0)
    assert chain.call(GAS_PRICE_ORACLE, "getL1Fee(bytes)(uint256)", b"\1") == 100 * 16 * 3
    with pytest.raises(NodeError, match="Transaction reverted without a reason string"):
        chain.call(GAS_PRICE_ORACLE, "getOperatorFee(uint256)(uint256)", 1)


def test_the_interface_of_arbitrum_is_at_its_address(chain: Chain) -> None:
    chain.set_code(NODE_INTERFACE, "NodeInterface")
    chain.send(NODE_INTERFACE, "set(uint64,uint64,uint256,uint256)", 20, 500, 10**8, 30 * 10**9)
    component = "gasEstimateL1Component(address,bool,bytes)(uint64,uint256,uint256)"
    assert chain.call(NODE_INTERFACE, component, RECEIVER, False, b"1234") == (80, 10**8, 30 * 10**9)
    assert chain.call(NODE_INTERFACE, component, RECEIVER, True, b"1234") == (580, 10**8, 30 * 10**9)


@pytest.mark.parametrize(
    ("signature", "args", "code", "data"),
    [
        ("revertWithReason(string)", [REASON], -32603, "0x08c379a0" + encode(["string"], [REASON]).hex()),
        ("revertWithError(uint256)", [7], -32603, "0xc246547f" + encode(["address", "uint256"], [ADDRESS, 7]).hex()),
        ("revertWithPanic()", [], -32603, "0x4e487b71" + encode(["uint256"], [1]).hex()),
        ("revertWithoutData()", [], -32603, "0x"),
        ("loop()", [], -32000, "0x"),
    ],
)
def test_a_call_fails_in_every_way(
    chain: Chain, deployed: Deployed, signature: str, args: list[Any], code: int, data: str
) -> None:
    call = {"from": ADDRESS, "to": deployed.misbehaving, "data": "0x" + encode_call(signature, *args).hex()}
    with pytest.raises(NodeError) as raised:
        chain.rpc("eth_estimateGas", call | {"gas": hex(1_000_000)})
    assert (raised.value.error["code"], raised.value.error["data"]["data"]) == (code, data)


def test_work_costs_what_it_is_asked_to(chain: Chain, deployed: Deployed) -> None:
    costs = [int(chain.send(deployed.misbehaving, "burn(uint256)", gas)["gasUsed"], 16) for gas in (0, 50_000)]
    assert 50_000 <= costs[1] - costs[0] < 50_500
    write = "write(uint256,uint256,uint256)"
    costs = [int(chain.send(deployed.misbehaving, write, 9, count, 1)["gasUsed"], 16) for count in (1, 4)]
    assert costs[1] - costs[0] > 2 * 20_000
    assert [chain.call(deployed.misbehaving, "written(uint256)(uint256)", slot) for slot in (8, 9, 12, 13)] == [
        0,
        1,
        1,
        0,
    ]


def test_transactions_of_every_type_are_mined_at_the_base_fee_that_was_set(chain: Chain, deployed: Deployed) -> None:
    authority = Account.from_key("0x" + "11" * 32)
    listed = [{"address": deployed.misbehaving, "storageKeys": ["0x" + "00" * 32]}]
    delegation = authority.sign_authorization({"chainId": 31337, "address": deployed.misbehaving, "nonce": 0})
    fees = {"maxFeePerGas": 10**10, "maxPriorityFeePerGas": 3}
    kinds: list[dict[str, Any]] = [
        {"gasPrice": 103},
        {"type": 1, "gasPrice": 103, "accessList": listed},
        {"type": 2, "accessList": listed} | fees,
        {"type": 3, "maxFeePerBlobGas": 10**9, "blobVersionedHashes": [EMPTY_BLOB_HASH] * 2} | fees,
        {"type": 4, "authorizationList": [delegation]} | fees,
    ]
    receipts = []
    for nonce, kind in enumerate(kinds, int(chain.rpc("eth_getTransactionCount", ADDRESS, "latest"), 16)):
        fields = {"chainId": 31337, "nonce": nonce, "to": RECEIVER, "value": 1, "gas": 100_000} | kind
        raw = bytes(Account.from_key(KEY).sign_transaction(fields).raw_transaction)
        chain.set_next_base_fee(100)
        receipt = chain.receipt(chain.send_raw(with_blobs(raw) if kind.get("type") == 3 else raw))
        receipts.append((receipt["type"], int(receipt["gasUsed"], 16), int(receipt["effectiveGasPrice"], 16)))
    assert receipts == [
        ("0x0", 21_000, 103),
        ("0x1", 25_300, 103),
        ("0x2", 25_300, 103),
        ("0x3", 21_000, 103),
        ("0x4", 46_000, 103),
    ]


def test_the_chain_is_as_it_was_after_what_was_done_to_it(chain: Chain, deployed: Deployed) -> None:
    def seen() -> tuple[Any, ...]:
        return chain.rpc("eth_blockNumber"), chain.rpc("eth_getBalance", RECEIVER, "latest"), chain.call(*reserves)

    reserves = deployed.pair, "getReserves()(uint112,uint112,uint32)"
    before = seen()
    with chain.restored():
        chain.mine(3)
        chain.set_balance(RECEIVER, 5)
        chain.send(deployed.pair, "set(uint112,uint112,uint32)", 1, 2, 3)
        assert seen() == (hex(int(before[0], 16) + 4), "0x5", (1, 2, 3))
    assert seen() == before


def test_the_clock_of_the_chain_is_ours_however_often_it_is_restored(chain: Chain) -> None:
    for _ in range(4):
        with chain.restored():
            time.sleep(1.1)
    chain.mine(30)
    ahead = chain.timestamp() - time.time()
    # What lies between the two readings may take long.
    assert -60 < ahead <= 0
