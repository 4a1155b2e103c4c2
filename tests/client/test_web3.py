"""web3.py with the middleware: what its documentation does with an account, a relayer does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from relayer_client import Relayer, errors
from tests.chain.hardhat import contracts
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
ABI = [
    {"type": "constructor", "stateMutability": "nonpayable", "inputs": CONSTRUCTOR["inputs"]},
    function("mint", "", "address", "uint256"),
    function("transfer", "bool", "address", "uint256"),
    function("balanceOf", "uint256", "address"),
]


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
    w3.eth.wait_for_transaction_receipt(tx_hash)
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


def test_another_chain_and_a_nonce_are_refused(w3: Any) -> None:
    from web3.exceptions import Web3ValidationError

    with pytest.raises(Web3ValidationError):
        w3.eth.send_transaction({"to": RECEIVER, "value": 1, "chainId": 1})
    with pytest.raises(ValueError, match="the service assigns nonces"):
        w3.eth.send_transaction({"to": RECEIVER, "value": 1, "nonce": 7})


def test_a_transaction_without_a_hash_in_time_has_its_id(relayer: Relayer, node: LocalChain) -> None:
    # More than the account has: it waits for funds, without a nonce.
    impatient = connect(node, relayer, address=ADDRESS, timeout=0)
    with pytest.raises(errors.WaitTimeout) as raised:
        impatient.eth.send_transaction({"to": RECEIVER, "value": 10**30, "gas": 21000})
    assert relayer.cancel(raised.value.transaction_id).is_canceled


def test_an_asynchronous_web3_has_an_asynchronous_relayer(service: Service, node: LocalChain) -> None:
    from web3 import AsyncHTTPProvider, AsyncWeb3

    from relayer_client.web3 import RelayerMiddleware

    async def send() -> Any:
        async with service.async_client() as client:
            w3: Any = AsyncWeb3(AsyncHTTPProvider(node.url))
            w3.middleware_onion.add(RelayerMiddleware.build(client.relayer("sender"), timeout=PATIENCE_SECONDS))
            try:
                tx_hash = await w3.eth.send_transaction({"to": RECEIVER, "value": 5})
                return await w3.eth.wait_for_transaction_receipt(tx_hash)
            finally:
                await w3.provider.disconnect()

    receipt = asyncio.run(send())
    assert (receipt["status"], receipt["from"]) == (1, ADDRESS)
