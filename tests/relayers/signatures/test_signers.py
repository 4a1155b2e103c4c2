"""Signatures of every type of signer that can sign for Ethereum recover to the relayer's address."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct

from signers import signing
from signers.models import Signer
from tests.api import Api
from tests.relayers.signatures.requests import MESSAGE, SIGN, relayer
from tests.transactions.signer_servers import SERVERS, running_signer

pytestmark = pytest.mark.django_db


@pytest.fixture(params=SERVERS)
def signer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Signer]:
    with running_signer(request.param, monkeypatch) as made:
        yield made


def test_the_signature_recovers_to_the_address_of_the_relayer(signer: Signer, caller: Api) -> None:
    row = relayer(signer=signer, address=signing.read_identity(signer))
    answer = caller.post(SIGN, MESSAGE)
    signature = answer.body["data"]
    assert (answer.status, signature["v"] in {27, 28}, len(signature["sig"])) == (200, True, 130)
    message = encode_defunct(text=MESSAGE["message"])
    assert Account.recover_message(message, signature=bytes.fromhex(signature["sig"])) == row.address
