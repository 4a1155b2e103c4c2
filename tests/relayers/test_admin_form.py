"""The admin's form for relayers: its checks, and its calls to signers and nodes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import connection
from django.test import Client
from pytest_django import DjangoCaptureOnCommitCallbacks

from chain.networks import networks
from chain.nodes import failover
from notifications.models import Notification
from relayer_service.background.tasks import queue
from relayer_service.database.clock import database_now
from relayers.models import Relayer
from relayers.policy_fields import FORM_FIELDS
from signers.models import Signer
from spending.models import SpendingPolicy
from tests.notifications.admin_pages import told
from tests.relayers import factories
from tests.relayers.admin_pages import ADD, add, change, edit, errors, fields, open_form, row_errors, rpc_url
from tests.relayers.stand_in_node import HARDHAT_CHAIN, StandInNode, serve
from tests.servers import free_port
from tests.signers.examples import CONFIGS

pytestmark = pytest.mark.django_db


OTHER_ADDRESS = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
LARGEST = 2**128 - 1
NO_COMMA = "must have no thousands separator, and a point before decimals: 1000 or 1.5"
AMOUNT = f"a whole number from 0 to {LARGEST} is required"
IN_COINS = "must be a whole number of wei, or an amount with its unit, for example 0.5 ETH or 30 gwei"

POLICIES = {
    "eip1559_pricing": True,
    "gas_price_cap": 2**53 + 1,
    "min_balance": LARGEST,
    "private_transactions": False,
    "whitelist_receivers": [factories.ADDRESS, OTHER_ADDRESS],
}


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
    assert relayer.health.due_at <= database_now()
    assert [task.name for task in queue.pending()] == ["check_relayers_now"]
    assert len(told(page)) == 1
    # Its page, which says how to fund it.
    assert page.redirect_chain[-1][0] == change(relayer)


def test_each_fault_is_shown_at_its_field(admin_client: Client) -> None:
    no_choice = ["Select a valid choice. That choice is not one of the available choices."]
    relayer = factories.relayer(identifier="taken")
    # A channel for people is no webhook of a relayer.
    channel = Notification.objects.create(identifier="ops", type="slack", url="https://hooks.slack.com/services/T/B/x")
    mistyped = factories.ADDRESS.replace("F39", "f39").replace("9F", "9f")[:-1] + "7"
    policies = {"eip1559_pricing": "perhaps", "gas_price_cap": "-1", "min_balance": "1 POL"}
    policies["whitelist_receivers"] = f"{factories.ADDRESS}\n0x12"
    row = {"identifier": "taken", "name": "", "network": "", "address": mistyped, "notification": channel.pk}
    page = add(admin_client, **row, signer="²", **{f"policy_{name}": text for name, text in policies.items()})
    assert errors(page) == {
        "identifier": ["Relayer with this ID already exists."],
        "name": ["This field is required."],
        "network": ["This field is required."],
        "address": ["invalid checksum: a character of this address is mistyped"],
        "signer": no_choice,
        "notification": no_choice,
        "policy_eip1559_pricing": ["Select a valid choice. perhaps is not one of the available choices."],
        "policy_gas_price_cap": [AMOUNT],
        "policy_min_balance": ["must be a whole number of wei, or an amount with its unit, for example 30 gwei"],
        "policy_whitelist_receivers": ["0x12: must be an EVM address: 0x and 40 hexadecimal digits"],
    }
    page = edit(admin_client, relayer, address="0x12", signer="9" * 40, notification="²")
    no_address = ["must be an EVM address: 0x and 40 hexadecimal digits"]
    assert errors(page) == {"address": no_address, "signer": no_choice, "notification": no_choice}
    assert Relayer.objects.count() == 1


def test_a_rule_of_the_account_is_shown_at_its_field_and_blames_no_signer(admin_client: Client) -> None:
    page = add(admin_client, signer=factories.signer("broken", "not a key").pk, network="my-chain")
    assert errors(page) == {"network": ["unknown network: custom RPC URLs and a chain ID are required"]}
    assert Signer.objects.get(identifier="broken").last_error == ""
    transit = Signer(identifier="transit", type="provider_c_transit")
    transit.set_config(CONFIGS["provider_c_transit"])
    transit.save()
    (fault,) = errors(add(admin_client, signer=transit.pk))["signer"]
    assert fault.endswith("is an Ed25519 signer: it signs messages only and cannot be used by an evm relayer.")
    assert not Relayer.objects.exists()


def test_a_node_of_another_chain_is_refused_in_its_row(admin_client: Client, node: StandInNode) -> None:
    with serve(StandInNode(chain_id=5)) as other:
        nodes = {"rpc_urls-TOTAL_FORMS": "2", "rpc_urls-0-url": node.url, "rpc_urls-1-url": other.url}
        weights = {"rpc_urls-1-weight": "1", "rpc_urls-1-kept": ""}
        page = add(admin_client, network="my-chain", chain_id=HARDHAT_CHAIN, **nodes, **weights)
    fault = f"this node is on chain 5, not on {HARDHAT_CHAIN}"
    assert errors(page) == {"rpc_urls": [f"{other.url.replace('/v1/s3cret', '/***')}: {fault}"]}
    assert row_errors(page) == [{}, {"url": [fault]}]
    assert not Relayer.objects.exists()


def test_a_signer_that_fails_and_a_node_that_cannot_be_reached_are_warnings(admin_client: Client) -> None:
    url = f"http://127.0.0.1:{free_port()}/s3cret"
    row = {"signer": factories.signer("broken", "not a key").pk, "address": OTHER_ADDRESS.lower()}
    page = add(admin_client, network="my-chain", chain_id="5", **row, **{"rpc_urls-0-url": url})
    relayer = Relayer.objects.get()
    assert (relayer.address, relayer.custom_rpc_urls) == (OTHER_ADDRESS, [rpc_url(url)])
    error = "The key must be a secp256k1 private key: 32 bytes in hex."
    fault = "the chain ID of this node was not checked: connection failed"
    assert [text for text in told(page) if "added" not in text] == [
        f"relayer-1: The signer cannot provide its address: {error}",
        f"relayer-1: {url.replace('s3cret', '***')}: {fault}",
    ]
    assert Signer.objects.get(identifier="broken").last_error == error


def test_a_second_relayer_of_an_account_is_a_warning(admin_client: Client) -> None:
    factories.relayer(identifier="first")
    text = "the relayer first has the same account on this chain, and only one of them can send: choose another signer"
    add(admin_client, identifier="second")
    # Another chain has its own nonces, and a change of something else does not repeat it.
    add(admin_client, identifier="third", network="hoodi")
    page = edit(admin_client, Relayer.objects.get(identifier="second"), name="Second")
    assert [said for said in told(page) if "same account" in said] == [f"second: {text}"]


def test_nodes_are_called_only_when_something_about_them_changes(admin_client: Client, node: StandInNode) -> None:
    relayer = factories.relayer(network="hardhat", rpc_urls=[rpc_url(node.url)])
    calls = []
    for changes in (
        {"name": "Another name"},
        {"rpc_urls-0-weight": "1"},
        {"network": "other", "chain_id": HARDHAT_CHAIN},
    ):
        assert edit(admin_client, relayer, **changes).redirect_chain
        calls.append([*node.asked])
        node.asked.clear()
    assert calls == [[], ["eth_chainId"], ["eth_chainId"]]


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


def test_policies_are_set_changed_and_unset_each_in_its_field(admin_client: Client) -> None:
    typed = {
        "policy_eip1559_pricing": "yes",
        "policy_gas_price_cap": str(2**53 + 1),
        "policy_min_balance": str(LARGEST),
        "policy_private_transactions": "no",
        "policy_whitelist_receivers": f"{factories.ADDRESS}\r\n\r\n  {OTHER_ADDRESS}\r\n",
    }
    add(admin_client, **typed)
    relayer = Relayer.objects.get()
    assert relayer.policies == POLICIES
    expected: dict[str, Any] = dict(POLICIES)
    for name, text, value in [
        ("eip1559_pricing", "", None),
        ("min_balance", "0.5 ETH", 5 * 10**17),
        ("private_transactions", "yes", True),
        ("whitelist_receivers", "", None),
        ("gas_limit_estimation", "no", False),
    ]:
        edit(admin_client, relayer, **{f"policy_{name}": text})
        relayer.refresh_from_db()
        expected = {key: each for key, each in (expected | {name: value}).items() if each is not None}
        assert relayer.policies == expected


@pytest.mark.parametrize(
    ("network", "text", "wei"),
    [
        ("sepolia", "12.50eth", 125 * 10**17),
        ("sepolia", "0 ETH", 0),
        ("sepolia", "0.000000000000000001 ETH", 1),
        ("sepolia", "7 wei", 7),
        ("polygon", "3 POL", 3 * 10**18),
        ("celo-sepolia", "3 S-CELO", 3 * 10**18),
        ("sepolia", str(LARGEST + 1), AMOUNT),
        ("sepolia", "1.5", IN_COINS),
        ("sepolia", "1e18", IN_COINS),
        ("sepolia", "1 POL", IN_COINS),
        ("sepolia", "0.1234567890123456789 ETH", "ETH has at most 18 decimal places"),
        ("sepolia", "1,000 ETH", NO_COMMA),
        ("sepolia", "1,5", NO_COMMA),
        ("sepolia", "0.5 wei", "wei has at most 0 decimal places"),
        ("sepolia", f"{10**21} ETH", AMOUNT),
        ("sepolia", "9" * 5000, AMOUNT),
        ("sepolia", "٣", AMOUNT),
    ],
)
def test_a_minimum_balance_may_be_typed_in_the_coin_of_the_network(network: str, text: str, wei: Any) -> None:
    field: Any = copy.deepcopy(FORM_FIELDS["min_balance"])
    field.show_in(networks()[network], None)
    try:
        found = field.clean(text)
    except ValidationError as error:
        (found,) = error.messages
    assert found == wei


def test_the_page_says_what_a_policy_means_by_default_and_keeps_the_id(admin_client: Client) -> None:
    amounts = {"min_balance": 5 * 10**17, "gas_price_cap": 30 * 10**9}
    relayer = factories.relayer(network="polygon", policies=amounts)
    page = admin_client.get(change(relayer))
    assert (fields(page)["policy_min_balance"], fields(page)["policy_gas_price_cap"]) == ("0.5 POL", "30 gwei")
    form_fields = page.context["adminform"].form.fields
    defaults = {"eip1559_pricing": "yes", "gas_limit_estimation": "yes", "private_transactions": "no"}
    for name, default in defaults.items():
        assert dict(form_fields[f"policy_{name}"].choices)[""] == f"Not set: {default}"
    edit(admin_client, relayer, policy_gas_price_cap="31.5 gwei")
    assert Relayer.objects.get().policies == amounts | {"gas_price_cap": 315 * 10**8}
    assert "identifier" not in fields(page)
    edit(admin_client, relayer, identifier="other")
    assert Relayer.objects.get().identifier == "relayer-1"


def test_networks_signers_and_webhooks_are_offered_while_typing(admin_client: Client) -> None:
    names = {"signer": factories.signer().identifier, "notification": factories.notification().identifier}
    page = admin_client.get(ADD).content.decode()
    assert 'list="known-networks"' in page
    assert '<option value="sepolia">chain 11155111</option>' in page
    for field, name in names.items():
        assert f'data-model-name="relayer" data-field-name="{field}"' in page
        query = {"app_label": "relayers", "model_name": "relayer", "field_name": field, "term": name[:4]}
        found = admin_client.get("/admin/autocomplete/", query).json()["results"]
        assert [item["text"] for item in found] == [name]
