"""The admin's form for relayers: its checks, and its calls to signers and nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from chain.nodes import failover
from relayer_service.background.tasks import queue
from relayers.models import Relayer
from signers.models import Signer
from spending.models import SpendingPolicy
from tests.notifications.admin_pages import told
from tests.relayers import factories
from tests.relayers.admin_pages import ADD, add, change, edit, errors, fields, open_form, row_errors, rpc_url
from tests.relayers.stand_in_node import HARDHAT_CHAIN, StandInNode, serve
from tests.servers import free_port
from tests.signers.examples import CONFIGS

pytestmark = pytest.mark.django_db

OTHER_KEY = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"
OTHER_ADDRESS = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
LARGEST = 2**128 - 1


@pytest.fixture
def node() -> Iterator[StandInNode]:
    with serve(StandInNode()) as node:
        yield node


@pytest.fixture
def other_node() -> Iterator[StandInNode]:
    with serve(StandInNode()) as node:
        yield node


@pytest.mark.one_engine
def test_the_pages_have_the_fields_that_these_tests_send(admin_client: Client) -> None:
    spending = SpendingPolicy.objects.create(rules={"max_value": "5", "receivers": [{"address": OTHER_ADDRESS}]})
    relayer = factories.relayer(rpc_urls=[rpc_url("https://a.example.com")], policies=POLICIES, spending=spending)
    for path, drawn in ((ADD, {"identifier": "", "initial-identifier": ""}), (change(relayer), {})):
        assert open_form(admin_client, path) | drawn == fields(admin_client.get(path)) | drawn


def test_a_relayer_is_added_with_the_address_of_its_signer_and_checked_at_once(
    admin_client: Client, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        page = add(admin_client)
    relayer = Relayer.objects.get()
    assert (relayer.identifier, relayer.name, relayer.network) == ("relayer-1", "Relayer 1", "sepolia")
    assert (relayer.address, relayer.signer) == (factories.ADDRESS, factories.signer())
    assert (relayer.notification, relayer.chain_id, relayer.paused) == (None, None, False)
    assert (relayer.custom_rpc_urls, relayer.masked_rpc_urls, relayer.policies) == (None, [], {})
    assert relayer.health.due_at
    assert relayer.health.due_at <= timezone.now()
    assert [task.name for task in queue.pending()] == ["check_relayers_now"]
    assert len(told(page)) == 1


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("typed", "fault"),
    [
        ("0x12", "must be an EVM address: 0x and 40 hexadecimal digits"),
        (
            factories.ADDRESS.replace("F39", "f39").replace("9F", "9f")[:-1] + "7",
            "invalid checksum: a character of this address is mistyped",
        ),
    ],
)
def test_a_text_that_is_no_address_is_refused(admin_client: Client, typed: str, fault: str) -> None:
    assert errors(add(admin_client, address=typed)) == {"address": [fault]}
    assert not Relayer.objects.exists()


@pytest.mark.parametrize("name", ["signer", "notification"])
@pytest.mark.parametrize("key", ["x", "9" * 40, "²"])
def test_a_text_that_is_no_key_is_refused(admin_client: Client, name: str, key: str) -> None:
    fault = "Select a valid choice. That choice is not one of the available choices."
    assert errors(edit(admin_client, factories.relayer(), **{name: key})) == {name: [fault]}


def test_a_signer_that_fails_is_a_warning(admin_client: Client) -> None:
    page = add(admin_client, signer=factories.signer("broken", "not a key").pk, address=OTHER_ADDRESS.lower())
    assert Relayer.objects.get().address == OTHER_ADDRESS
    error = "The key must be a secp256k1 private key: 32 bytes in hex."
    warning = f"relayer-1: The signer cannot provide its address: {error}"
    assert [text for text in told(page) if "added" not in text] == [warning]
    assert Signer.objects.get(identifier="broken").last_error == error


def test_a_relayer_that_is_refused_says_nothing_of_its_signer(admin_client: Client) -> None:
    add(admin_client, signer=factories.signer("broken", "not a key").pk, network="my-chain")
    assert Signer.objects.get(identifier="broken").last_error == ""


def test_a_signer_of_another_curve_is_refused_in_words(admin_client: Client) -> None:
    transit = Signer(identifier="transit", type="provider_c_transit")
    transit.set_config(CONFIGS["provider_c_transit"])
    transit.save()
    (fault,) = errors(add(admin_client, signer=transit.pk))["signer"]
    assert fault.endswith("is an Ed25519 signer: it signs messages only and cannot be used by an evm relayer.")
    assert not Relayer.objects.exists()


@pytest.mark.parametrize(
    ("changes", "faults"),
    [
        (
            {"network": "my-chain"},
            {"network": ["unknown network: custom RPC URLs and a chain ID are required"]},
        ),
        ({"network": ""}, {"network": ["This field is required."]}),
        ({"name": ""}, {"name": ["This field is required."]}),
        ({"identifier": "taken"}, {"identifier": ["Relayer with this ID already exists."]}),
    ],
)
def test_a_relayer_that_cannot_be_is_refused_at_its_field(
    admin_client: Client, changes: dict[str, str], faults: dict[str, list[str]]
) -> None:
    factories.relayer(identifier="taken")
    assert errors(add(admin_client, **changes)) == faults
    assert Relayer.objects.count() == 1


@pytest.mark.one_engine
def test_the_form_offers_the_networks_that_are_known(admin_client: Client) -> None:
    text = admin_client.get(ADD).content.decode()
    assert 'list="known-networks"' in text
    assert '<option value="sepolia">chain 11155111</option>' in text


def test_a_node_of_another_chain_is_refused_in_its_row(
    admin_client: Client, node: StandInNode, other_node: StandInNode
) -> None:
    other_node.chain_id = 5
    nodes = {"rpc_urls-TOTAL_FORMS": "2", "rpc_urls-0-url": node.url, "rpc_urls-1-url": other_node.url}
    weights = {"rpc_urls-1-weight": "1", "rpc_urls-1-kept": ""}
    page = add(admin_client, network="my-chain", chain_id=HARDHAT_CHAIN, **nodes, **weights)
    shown = other_node.url.replace("/v1/s3cret", "/***")
    fault = f"this node is on chain 5, not on {HARDHAT_CHAIN}"
    assert errors(page) == {"rpc_urls": [f"{shown}: {fault}"]}
    assert row_errors(page) == [{}, {"url": [fault]}]
    assert not Relayer.objects.exists()


def test_a_node_that_cannot_be_reached_is_a_warning(admin_client: Client) -> None:
    url = f"http://127.0.0.1:{free_port()}/s3cret"
    page = add(admin_client, network="my-chain", chain_id="5", **{"rpc_urls-0-url": url})
    assert Relayer.objects.get().custom_rpc_urls == [rpc_url(url)]
    fault = "the chain ID of this node was not checked: connection failed"
    warning = f"relayer-1: {url.replace('s3cret', '***')}: {fault}"
    assert [text for text in told(page) if "added" not in text] == [warning]


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({"name": "Another name"}, []),
        ({"rpc_urls-0-weight": "1"}, ["eth_chainId"]),
        ({"network": "other", "chain_id": HARDHAT_CHAIN}, ["eth_chainId"]),
    ],
)
def test_nodes_are_called_only_when_something_about_them_changes(
    admin_client: Client, node: StandInNode, changes: dict[str, str], asked: list[str]
) -> None:
    relayer = factories.relayer(network="hardhat", rpc_urls=[rpc_url(node.url)])
    assert edit(admin_client, relayer, **changes).redirect_chain
    assert node.asked == asked


@pytest.mark.django_db(transaction=True)
def test_nothing_is_locked_while_nodes_and_signers_are_called(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside: list[bool] = []

    def ask(urls: list[str]) -> list[int]:
        inside.append(connection.in_atomic_block)
        return [5 for _ in urls]

    monkeypatch.setattr(failover, "chain_ids", ask)
    add(admin_client, network="my-chain", chain_id="5", **{"rpc_urls-0-url": "https://a.example.com"})
    assert Relayer.objects.exists()
    assert inside == [False]


POLICIES = {
    "eip1559_pricing": True,
    "gas_price_cap": 2**53 + 1,
    "min_balance": LARGEST,
    "private_transactions": False,
    "whitelist_receivers": [factories.ADDRESS, OTHER_ADDRESS],
}


def test_policies_are_set_each_in_its_field(admin_client: Client) -> None:
    typed = {
        "policy_eip1559_pricing": "yes",
        "policy_gas_price_cap": str(2**53 + 1),
        "policy_min_balance": str(LARGEST),
        "policy_private_transactions": "no",
        "policy_whitelist_receivers": f"{factories.ADDRESS}\r\n\r\n  {OTHER_ADDRESS}\r\n",
    }
    add(admin_client, **typed)
    assert Relayer.objects.get().policies == POLICIES


@pytest.mark.parametrize(
    ("changes", "after"),
    [
        ({}, POLICIES),
        ({"policy_eip1559_pricing": ""}, {k: v for k, v in POLICIES.items() if k != "eip1559_pricing"}),
        ({"policy_min_balance": "0"}, POLICIES | {"min_balance": 0}),
        ({"policy_private_transactions": "yes"}, POLICIES | {"private_transactions": True}),
        ({"policy_whitelist_receivers": ""}, {k: v for k, v in POLICIES.items() if k != "whitelist_receivers"}),
        ({"policy_gas_limit_estimation": "no"}, POLICIES | {"gas_limit_estimation": False}),
    ],
)
def test_policies_are_changed_and_unset_one_by_one(
    admin_client: Client, changes: dict[str, str], after: dict[str, Any]
) -> None:
    relayer = factories.relayer(policies=POLICIES)
    edit(admin_client, relayer, **changes)
    relayer.refresh_from_db()
    assert relayer.policies == after


AMOUNT = f"a whole number from 0 to {LARGEST} is required"
IN_COINS = "must be a whole number of wei, or an amount with its coin, for example 0.5 ETH"


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("gas_price_cap", str(LARGEST + 1), AMOUNT),
        ("gas_price_cap", "-1", AMOUNT),
        ("min_balance", "1.5", IN_COINS),
        ("min_balance", "1e18", IN_COINS),
        ("min_balance", "1 POL", IN_COINS),
        ("min_balance", "0.1234567890123456789 ETH", "ETH has at most 18 decimal places"),
        ("min_balance", "0.5 wei", "wei has at most 0 decimal places"),
        ("min_balance", f"{10**21} ETH", AMOUNT),
        ("min_balance", "9" * 5000, AMOUNT),
        ("min_balance", "٣", AMOUNT),
        ("eip1559_pricing", "perhaps", "Select a valid choice. perhaps is not one of the available choices."),
        (
            "whitelist_receivers",
            f"{factories.ADDRESS}\n0x12",
            "0x12: must be an EVM address: 0x and 40 hexadecimal digits",
        ),
    ],
)
def test_a_fault_of_a_policy_is_shown_at_its_field(admin_client: Client, name: str, text: str, fault: str) -> None:
    assert errors(add(admin_client, **{f"policy_{name}": text})) == {f"policy_{name}": [fault]}
    assert not Relayer.objects.exists()


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("network", "typed", "wei"),
    [
        ("sepolia", "0.5 ETH", 5 * 10**17),
        ("sepolia", "12.50eth", 125 * 10**17),
        ("sepolia", "0 ETH", 0),
        ("sepolia", "0.000000000000000001 ETH", 1),
        ("sepolia", "7 wei", 7),
        ("polygon", "3 POL", 3 * 10**18),
        ("celo-sepolia", "3 S-CELO", 3 * 10**18),
    ],
)
def test_a_minimum_balance_may_be_typed_in_the_coin_of_the_network(
    admin_client: Client, network: str, typed: str, wei: int
) -> None:
    add(admin_client, network=network, policy_min_balance=typed)
    assert Relayer.objects.get().policies == {"min_balance": wei}


@pytest.mark.one_engine
def test_the_coin_of_an_unknown_network_is_unknown(admin_client: Client) -> None:
    page = add(admin_client, network="my-chain", policy_min_balance="0.5 ETH")
    assert errors(page)["policy_min_balance"] == ["must be a whole number of wei"]


@pytest.mark.one_engine
def test_the_form_says_what_a_minimum_balance_means(admin_client: Client) -> None:
    relayer = factories.relayer(network="polygon", policies={"min_balance": 5 * 10**17})
    page = admin_client.get(change(relayer))
    assert fields(page)["policy_min_balance"] == "500000000000000000"
    assert "Set to 0.5 POL." in page.content.decode()


def test_the_id_cannot_be_changed(admin_client: Client) -> None:
    relayer = factories.relayer()
    assert "identifier" not in fields(admin_client.get(change(relayer)))
    edit(admin_client, relayer, identifier="other")
    assert Relayer.objects.get().identifier == "relayer-1"


@pytest.mark.parametrize(("field", "name"), [("signer", "signer-1"), ("notification", "hook-1")])
def test_signers_and_notifications_are_found_while_typing(admin_client: Client, field: str, name: str) -> None:
    factories.signer()
    factories.notification()
    page = admin_client.get(ADD).content.decode()
    assert f'data-model-name="relayer" data-field-name="{field}"' in page
    query = {"app_label": "relayers", "model_name": "relayer", "field_name": field, "term": name[:4]}
    found = admin_client.get("/admin/autocomplete/", query).json()["results"]
    assert [item["text"] for item in found] == [name]
