"""web3.py with the middleware: what its documentation does with an account, a relayer does."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct, encode_typed_data

from relayer_client import Relayer, errors
from tests.chain.hardhat import contracts
from tests.client.examples import TYPED_DATA as TYPED
from tests.client.running import Service, mine_always
from tests.concurrency import PATIENCE_SECONDS, wait_until
from tests.relayers.factories import ADDRESS
from tests.transactions.hardhat import OTHER_ADDRESS, LocalChain

RECEIVER = "0x000000000000000000000000000000000000bEEF"


def function(name: str, outputs: str, *inputs: str) -> dict[str, Any]:
    """Return the ABI of a function of tokens."""
    entry = {"type": "function", "name": name, "stateMutability": "view" if name == "balanceOf" else "nonpayable"}
    types = {"inputs": inputs, "outputs": outputs.split()}
    return entry | {key: [{"name": f"a{n}", "type": each} for n, each in enumerate(of)] for key, of in types.items()}


CONSTRUCTOR = function("", "", "string", "string", "uint8")
TRANSFER = [
    {"name": "from", "type": "address", "indexed": True},
    {"name": "to", "type": "address", "indexed": True},
    {"name": "value", "type": "uint256", "indexed": False},
]
ABI = [
    {"type": "constructor", "stateMutability": "nonpayable", "inputs": CONSTRUCTOR["inputs"]},
    {"type": "event", "name": "Transfer", "anonymous": False, "inputs": TRANSFER},
    function("mint", "", "address", "uint256"),
    function("transfer", "bool", "address", "uint256"),
    function("balanceOf", "uint256", "address"),
]

REVERTING = [function("revertWithReason", "", "string")]


def connect(node: LocalChain, relayer: Relayer, **options: Any) -> Any:
    # Loaded here, as it takes a second, which processes without these tests need not spend.
    from web3 import HTTPProvider, Web3

    from relayer_client.web3 import RelayerMiddleware

    w3 = Web3(HTTPProvider(node.url))
    w3.middleware_onion.add(RelayerMiddleware.build(relayer, **{"timeout": PATIENCE_SECONDS, **options}))
    return w3


@pytest.fixture
def w3(node: LocalChain, relayer: Relayer) -> Any:
    return connect(node, relayer)


def test_a_transfer_is_sent_by_the_relayer(w3: Any, relayer: Relayer) -> None:
    assert w3.eth.accounts[:2] == [ADDRESS, OTHER_ADDRESS]
    account = w3.eth.accounts[0]
    tx_hash = w3.eth.send_transaction({"from": account, "to": RECEIVER, "value": 123123123123123})
    tx = w3.eth.get_transaction(tx_hash)
    assert (tx["from"], tx["value"]) == (account, 123123123123123)
    receipt = w3.eth.wait_for_transaction_receipt(tx_hash)
    assert receipt["status"] == 1
    assert relayer.list_transactions(hash=tx_hash.to_0x_hex()).first() is not None


def test_a_contract_is_deployed_and_called(w3: Any, relayer: Relayer, node: LocalChain) -> None:
    w3.eth.default_account = w3.eth.accounts[0]
    Token = w3.eth.contract(abi=ABI, bytecode=contracts()["Token"].creation)  # noqa: N806  # a class
    tx_hash = Token.constructor("Coin", "COIN", 18).transact()
    tx_receipt = w3.eth.wait_for_transaction_receipt(tx_hash)
    token = w3.eth.contract(address=tx_receipt["contractAddress"], abi=ABI)
    assert token.functions.balanceOf(ADDRESS).call() == 0
    tx_hash = token.functions.mint(ADDRESS, 7).transact()
    receipt = w3.eth.wait_for_transaction_receipt(tx_hash)
    (event,) = token.events.Transfer().process_receipt(receipt)
    assert (event["args"]["to"], event["args"]["value"]) == (ADDRESS, 7)
    assert token.events.Transfer().get_logs(from_block=receipt["blockNumber"])[0]["args"] == event["args"]
    assert token.functions.balanceOf(ADDRESS).call() == 7
    # Built with gas, prices and a chain ID.
    built = token.functions.transfer(RECEIVER, 3).build_transaction({"from": ADDRESS})
    w3.eth.wait_for_transaction_receipt(w3.eth.send_transaction(built))
    # Without an account, it is the relayer's.
    again = connect(node, relayer).eth.contract(address=token.address, abi=ABI)
    w3.eth.wait_for_transaction_receipt(again.functions.transfer(RECEIVER, 1).transact())
    assert [token.functions.balanceOf(each).call() for each in (ADDRESS, RECEIVER)] == [3, 4]


def test_the_receipt_is_found_under_a_hash_that_was_replaced(w3: Any, relayer: Relayer, node: LocalChain) -> None:
    node.mine_on_demand()
    first = w3.eth.send_transaction({"to": RECEIVER, "value": 1})
    relayer.speed_up(found(relayer, first.to_0x_hex()))
    wait_until_replaced(relayer, first.to_0x_hex(), node)
    node.mine()
    receipt = w3.eth.wait_for_transaction_receipt(first, timeout=PATIENCE_SECONDS)
    assert receipt["status"] == 1
    assert receipt["transactionHash"] != first
    assert w3.eth.get_transaction(first)["hash"] == receipt["transactionHash"]


def wait_until_replaced(relayer: Relayer, first: str, node: LocalChain) -> None:
    """Wait until the node has another transaction in place of the one with the hash `first`."""
    wait_until(lambda: found(relayer, first).hash != first and found(relayer, first).hash in node.waiting())


def found(relayer: Relayer, any_hash: str) -> Any:
    return relayer.list_transactions(hash=any_hash).first()


def test_the_receipt_of_a_canceled_transaction_is_not_that_of_its_no_op(
    w3: Any, relayer: Relayer, node: LocalChain
) -> None:
    node.mine_on_demand()
    first = w3.eth.send_transaction({"to": RECEIVER, "value": 1})
    relayer.cancel(found(relayer, first.to_0x_hex()))
    wait_until_replaced(relayer, first.to_0x_hex(), node)
    mine_always(node)
    with pytest.raises(errors.TransactionCanceled):
        w3.eth.wait_for_transaction_receipt(first, timeout=PATIENCE_SECONDS)


def test_another_account_is_the_nodes(w3: Any, relayer: Relayer) -> None:
    tx_hash = w3.eth.send_transaction({"from": w3.eth.accounts[1], "to": RECEIVER, "value": 1})
    assert w3.eth.wait_for_transaction_receipt(tx_hash)["from"] == OTHER_ADDRESS
    assert found(relayer, tx_hash.to_0x_hex()) is None


def test_what_the_service_cannot_send_is_refused(w3: Any) -> None:
    from web3.exceptions import Web3ValidationError

    with pytest.raises(Web3ValidationError):
        w3.eth.send_transaction({"to": RECEIVER, "value": 1, "chainId": 1})
    with pytest.raises(ValueError, match="cannot have accessList"):
        w3.eth.send_transaction({"to": RECEIVER, "accessList": [{"address": RECEIVER, "storageKeys": []}]})
    with pytest.raises(ValueError, match="does not sign transactions"):
        w3.eth.sign_transaction({"from": ADDRESS, "to": RECEIVER, "value": 1})


def test_prices_are_the_services_unless_asked_otherwise(w3: Any, relayer: Relayer, node: LocalChain) -> None:
    node.mine_on_demand()
    prices = {"maxFeePerGas": 10**11, "maxPriorityFeePerGas": 1}
    transaction = {"to": RECEIVER, "value": 1, "gas": 30000, "accessList": [], **prices}
    sent = [w3.eth.send_transaction(transaction)]
    exact = connect(node, relayer, prices="transaction")
    sent += [exact.eth.send_transaction(transaction), exact.eth.send_transaction({**transaction, "speed": "average"})]
    rows = [found(relayer, each.to_0x_hex()) for each in sent]
    assert [(row.speed, row.max_fee_per_gas == 10**11) for row in rows] == [
        ("fast", False),
        (None, True),
        ("average", False),
    ]
    with pytest.raises(ValueError, match="prices must be one of service, transaction"):
        connect(node, relayer, prices="fast")


def test_a_call_has_an_idempotency_key_and_an_end(w3: Any, relayer: Relayer) -> None:
    until = datetime.now(UTC) + timedelta(hours=1)
    transaction = {"to": RECEIVER, "value": 1, "valid_until": until, "idempotency_key": "payout-7"}
    first, second = w3.eth.send_transaction(transaction), w3.eth.send_transaction(transaction)
    assert first == second
    assert found(relayer, first.to_0x_hex()).valid_until == until


def test_a_nonce_of_another_transaction_is_refused(w3: Any, node: LocalChain) -> None:
    used = w3.eth.get_transaction_count(ADDRESS) - 1
    node.mine_on_demand()
    waiting = w3.eth.send_transaction({"to": RECEIVER, "value": 1})
    payment = {"to": RECEIVER, "value": 2}
    for nonce in (w3.eth.get_transaction(waiting)["nonce"], used):
        with pytest.raises(ValueError, match=f"Nonce {nonce} is"):
            w3.eth.send_transaction({**payment, "nonce": nonce})
    with pytest.raises(ValueError, match="is that of transaction"):
        w3.eth.replace_transaction(waiting, payment)
    assert len(node.waiting()) == 1


@pytest.mark.filterwarnings("ignore:The service assigns nonces")
def test_a_nonce_is_paid_once(w3: Any, relayer: Relayer, node: LocalChain) -> None:
    # As by a program whose own count has run ahead.
    nonce = w3.eth.get_transaction_count(ADDRESS) + 100
    node.mine_on_demand()
    payment = {"to": RECEIVER, "value": 3, "nonce": nonce}
    first = w3.eth.send_transaction(payment)
    # After a restart.
    assert connect(node, relayer).eth.send_transaction({**payment, "maxFeePerGas": 10**11}) == first
    with pytest.raises(ValueError, match=f"was sent for nonce {nonce}"):
        w3.eth.send_transaction({**payment, "value": 4})
    mine_always(node)
    relayer.wait(found(relayer, first.to_0x_hex()), timeout=PATIENCE_SECONDS)
    with pytest.raises(ValueError, match=f"was sent for nonce {nonce}"):
        w3.eth.send_transaction(payment)


@pytest.mark.filterwarnings("ignore:The service assigns nonces")
def test_the_nonce_of_what_was_never_sent_is_free(w3: Any, relayer: Relayer, node: LocalChain) -> None:
    nonce = w3.eth.get_transaction_count(ADDRESS)
    unpaid = {"to": RECEIVER, "value": 10**30, "gas": 21000, "nonce": nonce}
    with pytest.raises(errors.WaitTimeout) as raised:
        connect(node, relayer, timeout=0).eth.send_transaction(unpaid)
    relayer.cancel(raised.value.transaction_id)
    paid = w3.eth.send_transaction({**unpaid, "value": 1})
    assert w3.eth.wait_for_transaction_receipt(paid)["status"] == 1


def test_a_nonce_is_ignored_with_a_warning(w3: Any) -> None:
    with pytest.warns(UserWarning, match="The service assigns nonces"):
        w3.eth.send_transaction({"to": RECEIVER, "value": 1, "nonce": w3.eth.get_transaction_count(ADDRESS)})


def test_transactions_are_replaced(relayer: Relayer, node: LocalChain) -> None:
    w3 = connect(node, relayer, nonce="replace")
    node.mine_on_demand()
    first = w3.eth.send_transaction({"to": RECEIVER, "value": 1})
    second = w3.eth.replace_transaction(first, {"to": RECEIVER, "value": 5})
    # The same payload, at a higher price.
    third = w3.eth.modify_transaction(second, gas=50000)
    assert len({first, second, third}) == 3
    mine_always(node)
    receipt = w3.eth.wait_for_transaction_receipt(third, timeout=PATIENCE_SECONDS)
    assert (receipt["transactionHash"], w3.eth.get_transaction(third)["value"]) == (third, 5)
    relayer.wait(found(relayer, third.to_0x_hex()), timeout=PATIENCE_SECONDS)
    with pytest.raises(errors.NotChangeable):
        w3.eth.send_transaction({"to": RECEIVER, "value": 1, "nonce": w3.eth.get_transaction(third)["nonce"]})


def test_a_revert_has_its_data(w3: Any, node: LocalChain) -> None:
    from web3.exceptions import ContractLogicError

    contract = w3.eth.contract(node.deploy("Misbehaving"), abi=REVERTING)
    with pytest.raises(ContractLogicError, match="too early") as raised:
        contract.functions.revertWithReason("too early").transact()
    assert b"too early".hex() in str(raised.value.data)
    assert isinstance(raised.value.__context__, errors.TransactionFailed)


def test_messages_and_typed_data_are_signed_by_the_relayer(w3: Any) -> None:
    def call(method: str, *params: Any) -> Any:
        return w3.manager.request_blocking(method, params)

    text, raw = encode_defunct(text="hello"), encode_defunct(b"\xff\x00")
    typed = encode_typed_data(full_message=TYPED)
    for signable, signature in (
        (text, w3.eth.sign(ADDRESS, text="hello")),
        (text, call("personal_sign", "hello", ADDRESS)),
        (raw, call("personal_sign", "0xff00", ADDRESS.lower())),
        (raw, call("eth_sign", ADDRESS, b"\xff\x00")),
        (typed, w3.eth.sign_typed_data(ADDRESS, json.dumps(TYPED))),
        (typed, call("eth_signTypedData_v4", ADDRESS, TYPED)),
    ):
        assert Account.recover_message(signable, signature=signature) == ADDRESS
    assert Account.recover_message(text, signature=w3.eth.sign(OTHER_ADDRESS, text="hello")) == OTHER_ADDRESS


def test_a_transaction_without_a_hash_in_time_has_its_id(relayer: Relayer, node: LocalChain) -> None:
    # More than the account has: it waits for funds, without a nonce.
    impatient = connect(node, relayer, address=ADDRESS, timeout=0)
    with pytest.raises(errors.WaitTimeout) as raised:
        impatient.eth.send_transaction({"to": RECEIVER, "value": 10**30, "gas": 21000})
    assert relayer.cancel(raised.value.transaction_id).is_canceled


def test_an_asynchronous_web3_has_an_asynchronous_relayer(service: Service, node: LocalChain) -> None:
    from web3 import AsyncHTTPProvider, AsyncWeb3
    from web3.exceptions import ContractLogicError

    from relayer_client.web3 import RelayerMiddleware

    misbehaving = node.deploy("Misbehaving")

    async def send() -> Any:
        async with service.async_client() as client:
            w3: Any = AsyncWeb3(AsyncHTTPProvider(node.url))
            w3.middleware_onion.add(RelayerMiddleware.build(client.relayer("sender"), timeout=PATIENCE_SECONDS))
            reverting = w3.eth.contract(misbehaving, abi=REVERTING)
            try:
                with pytest.raises(ContractLogicError):
                    await reverting.functions.revertWithReason("too early").transact()
                tx_hash = await w3.eth.send_transaction({"to": RECEIVER, "value": 5})
                return await w3.eth.wait_for_transaction_receipt(tx_hash)
            finally:
                await w3.provider.disconnect()

    receipt = asyncio.run(send())
    assert (receipt["status"], receipt["from"]) == (1, ADDRESS)
