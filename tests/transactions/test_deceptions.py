"""Each lie that is after money must be told: a liar that is honest by mistake proves nothing."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from eth_account import Account

from tests.chain import faults
from tests.transactions.deceptions import DECEPTIONS, HIGH_HEAD, WILD_TIP, Deceiver, Fate
from tests.transactions.lying_node import LyingNode, lying_node

ACCOUNT = Account.from_key("0x" + "11" * 32)
RECEIPT = {"blockNumber": "0x5", "blockHash": "0xb", "gasUsed": "0x5209", "status": "0x1"}


def signed(to: str) -> tuple[str, str]:
    """Return the bytes of a transaction with nonce 3 and its hash."""
    fields = {"to": to, "value": 1, "gas": 21_000, "gasPrice": 1, "nonce": 3, "chainId": 31337, "data": b""}
    made = ACCOUNT.sign_transaction(fields)
    return "0x" + made.raw_transaction.hex().removeprefix("0x"), "0x" + made.hash.hex().removeprefix("0x")


PAYLOAD, PAYLOAD_HASH = signed("0x" + "22" * 20)
NOOP, NOOP_HASH = signed(ACCOUNT.address)
ENTRY = {"hash": PAYLOAD_HASH, "from": ACCOUNT.address, "nonce": "0x3", "value": "0x2", "input": "0xab", "to": "0x"}


def chain(call: dict[str, Any]) -> dict[str, Any]:
    """A chain on which the payload is mined in block 5, which is the head."""
    receipts = {PAYLOAD_HASH: RECEIPT | {"transactionHash": PAYLOAD_HASH}}
    params = [*call["params"], "", "latest"]
    results: dict[str, Any] = {
        "eth_sendRawTransaction": "0x0",
        "eth_getTransactionReceipt": receipts.get(params[0]),
        "eth_getBlockByNumber": {"number": "0x5", "transactions": [ENTRY]},
        "eth_blockNumber": "0x5",
        "eth_getBalance": "0x99" if params[1] == "latest" else "0x0",
        "eth_feeHistory": {"reward": [["0x1", "0x2"]]},
        "eth_gasPrice": "0x1",
        "eth_maxPriorityFeePerGas": "0x1",
        "eth_getTransactionCount": "0x4",
    }
    return {"result": results[call["method"]]}


@pytest.fixture
def node() -> Iterator[LyingNode]:
    with faults.node(faults.each(chain)) as upstream, lying_node(f"http://127.0.0.1:{upstream.server_port}/") as node:
        yield node


def ask(node: LyingNode, method: str, *params: Any) -> Any:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    url = f"http://127.0.0.1:{node.server.server_port}/"
    with urllib.request.urlopen(urllib.request.Request(url, body)) as answer:
        return json.load(answer)


@pytest.mark.parametrize(
    ("fate", "receipt", "is_foreign"),
    [
        (Fate.TRUE, RECEIPT, False),
        (Fate.HIDDEN, None, False),
        (Fate.DISOWNED, None, True),
        (Fate.FREE, RECEIPT | {"gasUsed": "0x0"}, False),
    ],
)
def test_a_deceiver_keeps_to_the_fate_of_a_transaction(
    node: LyingNode, fate: Fate, receipt: dict[str, str] | None, is_foreign: bool
) -> None:
    deceiver = Deceiver(node, seed=1)
    ask(node, "eth_sendRawTransaction", PAYLOAD)
    deceiver.sent[PAYLOAD_HASH].fate = fate
    found = ask(node, "eth_getTransactionReceipt", PAYLOAD_HASH)["result"]
    assert found == (receipt and receipt | {"transactionHash": PAYLOAD_HASH})
    (entry,) = ask(node, "eth_getBlockByNumber", "0x5", True)["result"]["transactions"]
    assert (entry["from"], entry["nonce"], entry["hash"] != PAYLOAD_HASH) == (ACCOUNT.address, "0x3", is_foreign)
    assert (ask(node, "eth_getTransactionReceipt", entry["hash"])["result"] is not None) is (
        is_foreign or bool(receipt)
    )


def test_a_deceiver_reports_a_noop_in_place_of_what_was_mined(node: LyingNode) -> None:
    deceiver = Deceiver(node, seed=1)
    for raw in (PAYLOAD, NOOP):
        ask(node, "eth_sendRawTransaction", raw)
    deceiver.sent[PAYLOAD_HASH].fate, deceiver.sent[NOOP_HASH].fate = Fate.TRUE, Fate.SWAPPED
    noop = RECEIPT | {"transactionHash": NOOP_HASH, "gasUsed": hex(21_000)}
    assert ask(node, "eth_getTransactionReceipt", NOOP_HASH)["result"] == noop
    assert ask(node, "eth_getTransactionReceipt", PAYLOAD_HASH)["result"] is None


@pytest.mark.parametrize(
    ("name", "method", "params", "lie"),
    [
        ("raise_head_1000000", "eth_blockNumber", [], hex(1_000_005)),
        ("raise_head_3", "eth_blockNumber", [], "0x8"),
        ("old_balance", "eth_getBalance", ["0xa", "latest"], "0x0"),
        ("old_balance_and_count", "eth_getBalance", ["0xa", "latest"], "0x0"),
        ("wild_tips", "eth_feeHistory", [], {"reward": [[hex(WILD_TIP)] * 2]}),
        ("wild_tip", "eth_maxPriorityFeePerGas", [], hex(WILD_TIP)),
        ("wild_price", "eth_gasPrice", [], hex(WILD_TIP)),
        ("refuse_sending", "eth_sendRawTransaction", [PAYLOAD], None),
    ],
)
def test_each_deception_about_a_request_is_told(
    node: LyingNode, name: str, method: str, params: list[str], lie: Any
) -> None:
    node.lie_once(method, next(each for each in [*DECEPTIONS, HIGH_HEAD] if each.__name__ == name))
    assert ask(node, method, *params).get("result") == lie
