"""The client against a running service, its worker and a chain."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from eth_abi.abi import encode
from eth_account import Account
from eth_account.messages import encode_defunct, encode_typed_data

from relayer_client import Client, Relayer, errors
from relayer_client.fields import PriceSourceFields
from tests.chain.hardhat import contracts, encode_call
from tests.client.running import Service
from tests.client.scripted_server import AT_ONCE
from tests.concurrency import PATIENCE_SECONDS, wait_until
from tests.relayers.factories import ADDRESS, KEY
from tests.transactions.hardhat import OTHER_ADDRESS, LocalChain

RECEIVER = "0x000000000000000000000000000000000000bEEF"
ENCODED = "0x02e1827a698080808252089470997970c51812dc3a010c7d01b50e0d17dc79c80180c0"


def balance(node: LocalChain, address: str) -> int:
    return int(node.rpc("eth_getBalance", address, "latest"), 16)


def test_a_transaction_is_sent_and_confirmed(relayer: Relayer, node: LocalChain) -> None:
    before = balance(node, RECEIVER)
    sent = relayer.send(to=RECEIVER, value=10**18, speed="fastest")
    done = relayer.wait(sent, timeout=PATIENCE_SECONDS)
    assert (done.id, done.status, done.sender, done.to) == (sent.id, "confirmed", ADDRESS, RECEIVER)
    assert (done.value, done.speed, done.gas_used) == (10**18, "fastest", 21000)
    assert done.valid_until - done.created_at == timedelta(hours=8)
    assert balance(node, RECEIVER) - before == 10**18
    assert relayer.get_transaction_by_nonce(done.nonce or 0) == done


def test_an_asynchronous_client_does_the_same(service: Service, node: LocalChain) -> None:
    async def send() -> list[Any]:
        async with service.async_client() as client:
            relayer = client.relayer("sender")
            sent = await asyncio.gather(*(relayer.send(to=RECEIVER, value=each) for each in range(3)))
            done = await asyncio.gather(*(relayer.wait(each, timeout=PATIENCE_SECONDS) for each in sent))
            listed = [each async for each in relayer.list_transactions(per_page=2)]
            return [*done, *listed]

    found = asyncio.run(send())
    done, listed = found[:3], found[3:]
    assert [each.value for each in done] == [0, 1, 2]
    assert {each.status for each in done} == {"confirmed"}
    assert {each.id for each in done} == {each.id for each in listed[:3]}


def test_messages_and_typed_data_are_signed(relayer: Relayer) -> None:
    for content in ("hello world", b"\xff\x00"):
        signature = relayer.sign(content)
        signable = encode_defunct(text=content) if isinstance(content, str) else encode_defunct(content)
        assert Account.recover_message(signable, signature=signature.to_bytes()) == ADDRESS
    types = {"Mail": [{"name": "contents", "type": "string"}]}
    domain, message = {"name": "Mail", "chainId": 31337}, {"contents": "hello"}
    signature = relayer.sign_typed_data(types=types, domain=domain, message=message, primary_type="Mail")
    signable = encode_typed_data(domain, types, message)
    assert Account.recover_message(signable, signature=f"0x{signature.sig}") == ADDRESS


def test_fees_are_estimated_and_quoted(relayer: Relayer) -> None:
    estimate = relayer.fee_estimate(fee_token="ETH", network="hardhat", transaction=ENCODED)
    assert estimate.conversion_rate == 1
    assert Decimal(0) < estimate.estimated_fee < 1
    quote = relayer.fee_quote(network="hardhat", transaction=bytes.fromhex(ENCODED[2:]), fee_tokens=["ETH", "XYZ"])
    assert quote.native.maximum == quote.gas_fee.maximum
    assert [(each.fee_token, each.error.code if each.error else None) for each in quote.tokens] == [
        ("ETH", None),
        ("XYZ", -32001),
    ]
    with pytest.raises(errors.TokenNotSupported):
        relayer.fee_estimate(fee_token="XYZ", network="hardhat", transaction=ENCODED)


def test_the_state_of_a_relayer_is_read_and_nothing_is_sent(
    relayer: Relayer, client: Client, node: LocalChain
) -> None:
    count = len(list(relayer.list_transactions()))
    run = relayer.dry_run(to=RECEIVER, value=1)
    assert (run.allowed, run.limits, run.estimate.reason) == (True, (), None)
    assert {check.allowed for check in run.checks} == {True}
    with pytest.raises(errors.BadRequest) as raised:
        relayer.send(to="0x12", value=-1)
    assert {(fault.path, fault.code) for fault in raised.value.faults} == {("to", "invalid"), ("value", "invalid")}
    assert raised.value.request_id
    assert len(list(relayer.list_transactions())) == count
    assert relayer.balance().balance > 10**18
    assert relayer.status().paused is False
    assert client.get_relayer("sender").address == ADDRESS
    assert client.get_network("evm:hardhat").chain_id == 31337
    assert "evm:hardhat" in {network.id for network in client.list_networks(per_page=10)}
    assert client.health()
    # A check that takes too long on a busy machine has failed, and works the next time.
    wait_until(lambda: client.readiness().is_ready)


def test_a_fleet_is_managed(client: Client) -> None:
    name = "a/b c"
    key = f"0x{'11' * 32}"
    assert client.create_signer(id=name, type="plain", config={"key": key}).id == name
    hook = client.create_notification(id=name, url="http://127.0.0.1:9999/hooks", events=["relayer.*"])
    assert (hook.events, hook.enabled) == (("relayer.*",), True)
    assert client.update_notification(name, signing_key="a key").has_signing_key
    created = client.create_relayer(
        id=name,
        name="Refunds",
        network="sepolia",
        signer_id=name,
        notification_id=name,
        policies={"min_balance": 1, "whitelist_receivers": [OTHER_ADDRESS]},
    )
    assert created.policies is not None
    assert created.policies.whitelist_receivers == (OTHER_ADDRESS,)
    changed = client.update_relayer(name, notification_id=None, policies={"min_balance": None})
    assert (changed.notification_id, changed.policies and changed.policies.min_balance) == (None, None)
    assert [each.id for each in client.list_relayers(network="sepolia")] == [name]
    assert client.pause_relayers(filter={"network": "sepolia"}).total == 1
    job = client.resume_relayers(filter={"network": "sepolia"}, reason="The nodes are back.")
    assert client.wait_job(job, timeout=PATIENCE_SECONDS).kind == "resume_relayers"
    delivery = client.test_notification(name)
    assert [each.id for each in client.list_deliveries(name, event="notification.test")] == [delivery.id]
    assert client.get_delivery(name, delivery.id).payload["type"] == "notification.test"
    assert client.replay_deliveries(name, filter={"state": "failed"}).kind == "replay_deliveries"
    with pytest.raises(errors.InUse):
        client.delete_signer(name)
    client.delete_relayer(name)
    client.delete_notification(name)
    client.delete_signer(name)
    with pytest.raises(errors.NotFound) as raised:
        client.get_signer(name)
    assert raised.value.code == "not_found"


def test_fee_tokens_are_managed(client: Client) -> None:
    token = client.create_fee_token(
        network="sepolia",
        symbol="USDC",
        address=OTHER_ADDRESS,
        sources=[{"kind": "fixed", "rate": Decimal("2500.5"), "max_age_seconds": 3600}],
    )
    assert (token.id, token.sources[0].rate) == ("sepolia:USDC", Decimal("2500.5"))
    assert client.update_fee_token(token.id, margin_bps=50, confirm_rates=True).margin_bps == 50
    assert client.get_fee_token(token.id).margin_bps == 50
    assert [each.symbol for each in client.list_fee_tokens(network="sepolia")] == ["USDC"]
    client.delete_fee_token(token.id)
    assert list(client.list_fee_tokens(network="sepolia")) == []


def test_a_token_is_transferred(client: Client, relayer: Relayer, node: LocalChain) -> None:
    creation = contracts()["Token"].creation + encode(["string", "string", "uint8"], ["Coin", "COIN", 6])
    address = relayer.wait(relayer.send(data=creation)).contract_address
    assert address is not None
    relayer.send(to=address, data=encode_call("mint(address,uint256)", ADDRESS, 10**6))
    sources: list[PriceSourceFields] = [{"kind": "fixed", "rate": "1", "max_age_seconds": 3600}]
    token = client.create_fee_token(network="hardhat", symbol="COIN", address=address, sources=sources)
    # Its decimals are read with its first price.
    relayer.fee_quote(network="hardhat", transaction=ENCODED, fee_tokens=["COIN"])
    sent = relayer.transfer_token(address.lower(), RECEIVER, Decimal("0.75"))
    assert relayer.wait_all([sent], timeout=PATIENCE_SECONDS)[0].to == address
    call = {"to": address, "data": f"0x{encode_call('balanceOf(address)', RECEIVER).hex()}"}
    assert int(node.rpc("eth_call", call, "latest"), 16) == 750_000
    client.delete_fee_token(token.id)


def test_lists_are_read_over_pages(client: Client) -> None:
    names = [f"page-{number}" for number in range(5)]
    for name in names:
        client.create_signer(id=name, type="plain", config={"key": KEY})
    pages = list(client.list_signers(q="page-", per_page=2).pages())
    assert [len(page.items) for page in pages] == [2, 2, 1]
    assert [signer.id for page in pages for signer in page.items] == names
    assert pages[0].total_items == 5
    signers = client.list_signers(q="page-", per_page=2)
    assert ([signer.id for signer in signers.to_list()], signers.total()) == (names, 5)
    assert client.list_signers(q="unknown").first() is None


def test_a_rotated_token_is_used_from_then_on(service: Service, client: Client) -> None:
    old = service.token
    rotation = client.rotate_token(overlap_seconds=3600)
    service.token = rotation.token
    assert rotation.token not in (old, "")
    assert old.startswith(rotation.replaces.token)
    assert rotation.token not in repr(rotation)
    assert client.list_signers().first() is not None
    with pytest.raises(errors.Conflict), Client(service.url, old, retries=AT_ONCE) as other:
        other.rotate_token()
