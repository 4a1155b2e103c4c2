"""The account of a relayer signs what one of eth_account with its key signs."""

from __future__ import annotations

from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import SignableMessage, encode_defunct, encode_intended_validator, encode_typed_data

from relayer_client import Relayer
from relayer_client.eth_account import RelayerAccount
from tests.client.examples import TYPED_DATA
from tests.client.running import Service
from tests.relayers.factories import KEY
from tests.transactions.hardhat import OTHER_ADDRESS, LocalChain

LOCAL = Account.from_key(KEY)


@pytest.fixture
def account(relayer: Relayer) -> RelayerAccount:
    return RelayerAccount(relayer)


def test_messages_and_typed_data_are_signed_as_with_the_key(account: RelayerAccount) -> None:
    assert account.address == LOCAL.address
    for signable in (
        encode_defunct(text="hello"),
        encode_defunct(b"\xff\x00"),
        encode_typed_data(full_message=TYPED_DATA),
    ):
        assert account.sign_message(signable) == LOCAL.sign_message(signable)
    types = {"Mail": TYPED_DATA["types"]["Mail"]}
    parts: Any = (TYPED_DATA["domain"], types, TYPED_DATA["message"])
    assert account.sign_typed_data(*parts) == Account.sign_typed_data(KEY, *parts)
    full = Account.sign_typed_data(KEY, full_message=TYPED_DATA)
    assert account.sign_typed_data(full_message=TYPED_DATA) == full


def test_nothing_else_is_signed(account: RelayerAccount) -> None:
    unlike: Any = account
    for sign in (unlike.unsafe_sign_hash, unlike.sign_transaction, unlike.encrypt):
        with pytest.raises(AttributeError, match="no transactions and no bare hashes"):
            sign({})
    with pytest.raises(AttributeError):
        unlike.signHash(b"\x00" * 32)
    with pytest.raises(ValueError, match="alone"):
        account.sign_message(encode_intended_validator(OTHER_ADDRESS, text="hello"))


def test_web3_cannot_sign_transactions_with_it(account: RelayerAccount, node: LocalChain) -> None:
    from web3 import HTTPProvider, Web3
    from web3.middleware import SignAndSendRawMiddlewareBuilder

    w3 = Web3(HTTPProvider(node.url))
    w3.middleware_onion.add(SignAndSendRawMiddlewareBuilder.build(account))
    with pytest.raises(AttributeError, match="RelayerMiddleware"):
        w3.eth.send_transaction({"from": account.address, "to": account.address})


def test_a_signature_of_another_key_is_refused(relayer: Relayer) -> None:
    with pytest.raises(ValueError, match="not one of"):
        RelayerAccount(relayer, address=OTHER_ADDRESS).sign_message(encode_defunct(text="hello"))
    # Its header is not that of the message.
    with pytest.raises(ValueError, match="not one of"):
        RelayerAccount(relayer).sign_message(SignableMessage(b"E", b"", b"hello"))


def test_an_asynchronous_relayer_has_no_account(service: Service) -> None:
    relayer: Any = service.async_client().relayer("sender")
    with pytest.raises(TypeError, match="needs a Relayer"):
        RelayerAccount(relayer)
