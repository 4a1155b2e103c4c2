"""Try it on a relayer's page: estimating, checking and sending a transaction that staff write down."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from chain.abi import encode_call
from relayer_service.models import AuditEntry
from relayers.models import Relayer
from rpc.models import FeeToken
from tests.notifications.admin_pages import staff_who_may
from tests.relayers import factories
from tests.relayers.factories import ADDRESS, set_paused
from tests.transactions.hardhat import OTHER_ADDRESS, RECEIVER, LocalChain
from tests.transactions.limits import limit_relayer
from transactions.models import Transaction

pytestmark = pytest.mark.django_db

KEY = "0" * 32
# A transfer of 1 wei with 21,000 gas on chain 31337.
ENCODED = "0x02e1827a698080808252089470997970c51812dc3a010c7d01b50e0d17dc79c80180c0"
EVEN = "an even number of hexadecimal digits is required, with or without 0x"
ONLY_ENCODED = "Empty this field, or leave the encoded transaction empty."
PAYMENT = {"to": RECEIVER, "value": "0.5 ETH"}
CALL = {"to": RECEIVER, "function": "transfer(address,uint256)", "arguments": f"{OTHER_ADDRESS}\n5"}


@pytest.fixture(autouse=True)
def extension(settings: Any) -> None:
    settings.EXTENSIONS = ["transactions"]


@pytest.fixture
def relayer(local_chain: LocalChain) -> Relayer:
    return factories.relayer(network="hardhat", rpc_urls=[{"url": local_chain.url, "weight": 100}])


def url(relayer: Relayer, page: str) -> str:
    return f"/admin/relayers/relayer/{relayer.pk}/{page}/"


def post(client: Client, relayer: Relayer, page: str, values: dict[str, str], **others: str) -> Any:
    return client.post(url(relayer, page), {f"try-{name}": text for name, text in values.items()} | others)


def errors(page: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = page.context["try_form"].errors
    return found


def test_every_rule_is_shown_with_its_verdict(admin_client: Client, relayer: Relayer) -> None:
    limit_relayer(relayer, max_value_per_day="10", max_value="9")
    assert "Check rules" in admin_client.get(url(relayer, "change")).text
    text = post(admin_client, relayer, "allowed", {"to": RECEIVER, "value": "10"}).text
    assert "Value 10 wei; the maximum of a transaction is 9 wei." in text
    assert "max_value_per_day" in text
    assert "Maximum gas cost" in text
    # Amounts of a token, with its symbol.
    FeeToken.objects.create(network="hardhat", symbol="USDC", address=RECEIVER, decimals=0)
    limit_relayer(relayer, tokens=[{"contract": RECEIVER, "max_amount": "4", "max_amount_per_day": "9"}])
    page = post(admin_client, relayer, "allowed", CALL)
    assert f"Amount 5 USDC of the token {RECEIVER}; the maximum of a transaction is 4 USDC." in page.text
    assert page.context["limits"]["rows"][0][3:] == ["5 USDC", "0 USDC", "9 USDC", "9 USDC"]
    assert not Transaction.objects.exists()


def test_a_call_and_an_encoded_transaction_are_estimated(admin_client: Client, relayer: Relayer) -> None:
    for values in (CALL, {"transaction": ENCODED}):
        page = post(admin_client, relayer, "estimate", {**values, "fee_token": "ETH"})
        assert [item.name for item in page.context["items"]][-1] == "Fee in ETH"


FAULTS: list[tuple[dict[str, str], dict[str, list[str]]]] = [
    ({}, {"to": ["Enter a receiver, or the creation code of a contract as data."]}),
    ({"to": "0x12", "value": "x"}, {"value": ["a whole number from 0 to 2^256 - 1 is required"]}),
    ({"to": "0x12"}, {"to": ["must be an EVM address: 0x and 40 hexadecimal digits"]}),
    ({"to": RECEIVER, "data": "0x1"}, {"data": [EVEN]}),
    ({**CALL, "data": "0x12"}, {"data": ["Enter a function or data, not both."]}),
    ({**CALL, "to": ""}, {"to": ["Enter the contract that has the function."]}),
    ({**CALL, "arguments": "5"}, {"arguments": ["The function takes 2 arguments, one per line; 1 given."]}),
    ({**CALL, "function": ""}, {"function": ["Enter the function that takes these arguments."]}),
    ({"to": RECEIVER, "transaction": ENCODED}, {"to": [ONLY_ENCODED]}),
    ({"transaction": "0x12"}, {"transaction": ["Not valid: its type must be between 0 and 4."]}),
]


def test_an_error_names_its_field(admin_client: Client) -> None:
    relayer = factories.relayer(network="hardhat")
    for values, faults in FAULTS:
        assert errors(post(admin_client, relayer, "send", values)) == faults
    for page in ("estimate", "allowed"):
        assert errors(post(admin_client, relayer, page, FAULTS[0][0])) == FAULTS[0][1]
    relayer.policies = {"whitelist_receivers": [OTHER_ADDRESS]}
    relayer.save()
    assert list(errors(post(admin_client, relayer, "send", PAYMENT, key=KEY))) == ["to"]
    relayer.network, relayer.policies = "sepolia", {}
    relayer.save()
    page = post(admin_client, relayer, "send", {"transaction": ENCODED}, key=KEY)
    text = "It cannot be sent: it is for chain 31337, and the relayer is on 11155111."
    assert errors(page) == {"transaction": [text]}
    # A damaged key sends nothing.
    assert post(admin_client, relayer, "send", PAYMENT, key="x").status_code == 400
    assert not Transaction.objects.exists()


def test_what_is_sent_is_confirmed_first(admin_client: Client, relayer: Relayer) -> None:
    page = post(admin_client, relayer, "send", {**CALL, "value": "0.5 ETH"})
    rows = {str(name): str(value) for name, value in page.context["table"].rows}
    assert rows.pop("Relayer").endswith(">relayer-1</a>")
    assert {name: rows[name] for name in list(rows)[:7]} == {
        "Network": "hardhat",
        "Sender": ADDRESS,
        "Receiver": RECEIVER,
        "Amount": "0.5 ETH",
        "Function": "transfer(address,uint256)",
        "Arguments": f"{OTHER_ADDRESS}, 5",
        "Data": f"0x{encode_call(CALL['function'], CALL['arguments']).hex()}",
    }
    assert list(rows)[7:] == ["Gas limit", "Maximum gas price", "Maximum gas cost"]
    assert page.context["texts"] == [
        "The relayer sends this transaction now. Its policies, spending rules and limits apply."
    ]
    assert not Transaction.objects.exists()


def test_a_confirmed_transaction_is_sent_once(admin_client: Client, relayer: Relayer) -> None:
    hidden = post(admin_client, relayer, "send", CALL).context["hidden"]
    first = admin_client.post(url(relayer, "send"), {**hidden, "reason": "A first one"})
    again = admin_client.post(url(relayer, "send"), {**hidden, "reason": "A first one"})
    row = Transaction.objects.get()
    assert first["Location"] == again["Location"] == f"/admin/transactions/transaction/{row.pk}/change/"
    assert (row.to, row.value, row.requested_by, row.speed) == (RECEIVER, 0, "admin", "fast")
    assert bytes(row.data) == encode_call(CALL["function"], CALL["arguments"])
    assert [*AuditEntry.objects.values_list("object_id", "actor", "reason")] == [
        (row.identifier, "admin", "Sent by admin. A first one")
    ]
    # An encoded one is sent with its gas limit.
    post(admin_client, relayer, "send", {"transaction": ENCODED, "speed": "average"}, key=KEY)
    row = Transaction.objects.latest("sequence")
    assert (row.to, row.value, row.requested_gas_limit, row.speed) == (OTHER_ADDRESS, 1, 21_000, "average")


def test_what_staff_send_has_their_labels(admin_client: Client, relayer: Relayer) -> None:
    labels = {"external_id": "invoice-7", "metadata": "customer: 81\n\nshop:berlin: 2"}
    for number, values in enumerate((PAYMENT, {"transaction": ENCODED})):
        page = post(admin_client, relayer, "send", {**values, **labels})
        shown = dict(page.context["table"].rows)
        assert (shown["External ID"], shown["Metadata"]) == ("invoice-7", "customer: 81, shop: berlin: 2")
        admin_client.post(url(relayer, "send"), page.context["hidden"])
        row = Transaction.objects.latest("sequence")
        assert (row.external_id, row.metadata) == ("invoice-7", {"customer": "81", "shop": "berlin: 2"})
        assert Transaction.objects.count() == number + 1
        # With other labels it is another request, which needs a key of its own.
        changed = admin_client.post(url(relayer, "send"), page.context["hidden"] | {"try-metadata": "a: b"})
        assert changed.status_code == 200
    found = errors(post(admin_client, relayer, "send", {**PAYMENT, "metadata": "customer", "external_id": "x" * 256}))
    assert found["metadata"] == ["Enter one pair per line, as key: value."]


def test_rules_apply_to_what_staff_send(admin_client: Client, relayer: Relayer) -> None:
    limit_relayer(relayer, max_value=str(10**18))
    page = post(admin_client, relayer, "send", {"to": RECEIVER, "value": "2 ETH"})
    assert page.context["texts"][1:] == [
        "It would be refused now. Value 2 ETH; the maximum of a transaction is 1 ETH."
    ]
    refused = admin_client.post(url(relayer, "send"), page.context["hidden"])
    text = "Refused by the spending rule max_value of the relayer: Value 2 ETH; the maximum of a transaction is 1 ETH."
    assert errors(refused) == {"__all__": [text]}
    assert [*AuditEntry.objects.values_list("object_id", "actor", "reason")] == [
        ("relayer-1", "admin", f"Refused a transaction to {RECEIVER} by the spending rule max_value of the relayer.")
    ]
    set_paused(relayer, True, "Maintenance")
    paused = post(admin_client, relayer, "send", {"to": RECEIVER}, key=KEY)
    assert errors(paused) == {"__all__": ["Relayer paused"]}
    assert not Transaction.objects.exists()


@pytest.mark.parametrize(
    ("permissions", "extensions", "buttons"),
    [
        (["add_transaction", "view_transaction"], ["transactions"], {"allowed", "send"}),
        (["view_transaction"], ["transactions"], {"allowed"}),
        (["add_transaction"], ["transactions"], set()),
        (["add_transaction", "view_transaction"], [], set()),
    ],
)
def test_only_those_who_may_check_and_send(
    client: Client, settings: Any, permissions: list[str], extensions: list[str], buttons: set[str]
) -> None:
    settings.EXTENSIONS = extensions
    staff, relayer = staff_who_may(client, "view_relayer", *permissions), factories.relayer(network="hardhat")
    text = staff.get(url(relayer, "change")).text
    assert {name for name in ("allowed", "send") if f'formaction="{url(relayer, name)}"' in text} == buttons
    # The same page, from the header.
    assert ("Send a transaction" in text) is ("send" in buttons)
    opened = staff.get(url(relayer, "send_transaction"), follow=True)
    expected = (200, "Send a transaction") if "send" in buttons else (403, None)
    assert (opened.status_code, opened.context.get("card_title")) == expected
    for name in {"allowed", "send"} - buttons:
        assert post(staff, relayer, name, PAYMENT, key=KEY).status_code == 403
        assert staff.get(url(relayer, name)).status_code == 405
    assert not Transaction.objects.exists()
