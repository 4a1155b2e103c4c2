"""Relayers as both services have them: their state and signatures."""

from typing import Any

import pytest

from client_tests.bench import Bench
from client_tests.test_transactions import RECEIVER

TYPES = {"Payment": [{"name": "to", "type": "address"}, {"name": "amount", "type": "uint256"}]}
DOMAIN_TYPE = [{"name": name, "type": "string"} for name in ("name", "version")]
DOMAIN_TYPE.append({"name": "chainId", "type": "uint256"})
DOMAIN: dict[str, Any] = {"name": "Shop", "version": "1", "chainId": 31337}
CONTENT: dict[str, Any] = {"to": RECEIVER, "amount": 5}


def test_a_relayer_has_an_account_and_a_state(bench: Bench) -> None:
    found, before = bench.relayer.client.get_relayer(bench.relayer.id), bench.relayer.status()
    assert (found.id, found.network, found.network_type, found.paused) == ("sender", "hardhat", "evm", False)
    sent = bench.relayer.send(to=RECEIVER, value=1)
    assert sent.sender == found.address
    status, balance = bench.relayer.status(), bench.relayer.balance()
    assert (status.network_type, status.paused, status.system_disabled) == ("evm", False, False)
    assert status.pending_transactions_count == before.pending_transactions_count + 1
    assert balance.unit == "wei"
    assert status.balance is not None
    assert min(balance.balance, status.balance) >= 10**18
    bench.move(sent, "confirmed")
    status = bench.relayer.status()
    assert status.last_confirmed_transaction_timestamp == bench.relayer.get_transaction(sent).confirmed_at
    assert status.pending_transactions_count == before.pending_transactions_count


def test_signatures_are_of_the_relayers_account(bench: Bench) -> None:
    messages = pytest.importorskip("eth_account.messages")
    account, relayer = pytest.importorskip("eth_account").Account, bench.relayer
    address = relayer.client.get_relayer(relayer.id).address
    typed = messages.encode_typed_data(DOMAIN, TYPES, CONTENT)
    full: Any = {"domain": DOMAIN, "message": CONTENT, "primary_type": "Payment"}
    signatures = [
        (messages.encode_defunct(text="Zoë"), relayer.sign("Zoë")),
        (messages.encode_defunct(b"\x00\xff"), relayer.sign(b"\x00\xff")),
        (typed, relayer.sign_typed_data(types=TYPES, **full)),
        (typed, relayer.sign_typed_data(types={**TYPES, "EIP712Domain": DOMAIN_TYPE}, **full)),
        (typed, relayer.sign_typed_data(domain_separator=typed.header, hash_struct_message=typed.body)),
    ]
    for signable, signature in signatures:
        assert account.recover_message(signable, signature=signature.to_bytes()) == address
        assert signature.to_bytes() == bytes.fromhex(f"{signature.r}{signature.s}{signature.v:02x}")
