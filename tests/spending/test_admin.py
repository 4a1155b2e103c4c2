"""The admin's editor for spending rules, on the pages of relayers and tokens."""

from __future__ import annotations

from threading import Thread
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection, connections, transaction
from django.test import Client

from relayer_service.models import AuditEntry
from relayers.models import Relayer
from rpc.models import FeeToken
from spending.models import SpendingPolicy
from tests.concurrency import wait_until, waits_for_a_lock
from tests.relayers import factories
from tests.relayers.admin_pages import add, change, edit, errors, open_form
from tests.spending.payloads import ALICE, BOB, OTHER_TOKEN, TOKEN
from tokens.models import AccessToken
from tokens.writes import issue, rotate

pytestmark = pytest.mark.django_db

ETHER = 10**18
RULES: dict[str, Any] = {
    "max_value": str(ETHER // 2),
    "receivers": [{"address": ALICE, "selectors": ["0x12345678", "0x"]}, {"address": BOB}],
    "tokens": [{"contract": TOKEN, "recipients": [ALICE, BOB], "max_amount": "5", "max_amount_per_day": "7"}],
}
TYPED = {
    "spending-max_value": "0.5 ETH",
    "spending_receivers-TOTAL_FORMS": "2",
    "spending_receivers-0-address": ALICE.lower(),
    "spending_receivers-0-selectors": "0x12345678 0x",
    "spending_receivers-1-address": BOB,
    "spending_tokens-0-contract": TOKEN,
    "spending_tokens-0-recipients": f"{ALICE}\r\n{BOB}",
    "spending_tokens-0-max_amount": "5",
    "spending_tokens-0-max_amount_per_day": "7",
}


def relayer(rules: dict[str, Any] | None = None) -> Relayer:
    return factories.relayer(spending=SpendingPolicy.objects.create(rules=rules) if rules else None)


def rules() -> Any:
    policy = Relayer.objects.get().spending
    return policy and policy.rules


def without(name: str, entry: dict[str, Any] = RULES) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != name}


REMOVED = {"spending_receivers-0-remove": "on", "spending_receivers-1-remove": "on"}


def test_rules_are_added_kept_changed_and_removed(admin_client: Client) -> None:
    add(admin_client, **TYPED)
    assert rules() == RULES
    row, largest = Relayer.objects.get(), str(2**256 - 1)
    for changes, expected in (
        ({}, RULES),
        ({"spending-max_value": "3"}, {**RULES, "max_value": "3"}),
        ({"spending-max_value": largest}, {**RULES, "max_value": largest}),
        ({"spending-max_value": ""}, without("max_value")),
        ({"spending-max_gas_cost_per_day": "1.5 eth"}, {**RULES, "max_gas_cost_per_day": str(ETHER * 3 // 2)}),
        ({"spending_receivers-0-remove": "on"}, {**RULES, "receivers": RULES["receivers"][1:]}),
        ({"spending_receivers-2-address": TOKEN}, {**RULES, "receivers": [*RULES["receivers"], {"address": TOKEN}]}),
        (REMOVED, {**RULES, "receivers": []}),
        ({"spending_tokens-0-recipients": ""}, {**RULES, "tokens": [without("recipients", RULES["tokens"][0])]}),
        ({"spending_tokens-0-remove": "on"}, without("tokens")),
    ):
        SpendingPolicy.objects.update(rules=RULES)
        AuditEntry.objects.all().delete()
        page = edit(admin_client, row, **changes)
        assert (rules(), page.redirect_chain != []) == (expected, True)
        assert AuditEntry.objects.count() == (1 if changes else 0)
    SpendingPolicy.objects.update(rules={"max_value": largest})
    edit(admin_client, row, name="Other")
    assert (rules(), Relayer.objects.get().name) == ({"max_value": largest}, "Other")


def test_without_rows_receivers_are_refused_only_if_that_is_ticked(admin_client: Client) -> None:
    row = relayer({"receivers": []})
    edit(admin_client, row, name="Other")
    assert rules() == {"receivers": []}
    typed = {
        name: value for name, value in open_form(admin_client, change(row)).items() if name != "spending-only_listed"
    }
    admin_client.post(change(row), typed)
    assert rules() == {}


@pytest.mark.one_engine
def test_a_fault_marks_its_field_and_changes_nothing(admin_client: Client) -> None:
    row = relayer()
    receiver, contract = {"spending_receivers-0-address": ALICE}, {"spending_tokens-0-contract": TOKEN}
    for typed, where, field in (
        ({"spending-max_value": "1 POL"}, "limits", "max_value"),
        ({"spending-max_value": "-1"}, "limits", "max_value"),
        ({"spending_receivers-0-address": ALICE[:-1]}, "receivers", "address"),
        ({"spending_receivers-0-selectors": "0x12345678"}, "receivers", "address"),
        ({**receiver, "spending_receivers-0-selectors": "0x12345678 transfer"}, "receivers", "selectors"),
        (contract, "tokens", "contract"),
        ({**contract, "spending_tokens-0-recipients": f"{ALICE}\n{ALICE}"}, "tokens", "recipients"),
        ({**contract, "spending_tokens-0-max_amount": "1.5"}, "tokens", "max_amount"),
    ):
        page = edit(admin_client, row, name="Other", **typed)
        assert errors(page) == {"spending_rules": ["Correct the marked fields."]}
        editor = page.context_data["adminform"].form.fields["spending_rules"].editor
        found = editor.limits.errors if where == "limits" else getattr(editor, where)[0].errors
        assert [*found] == [field]
        assert (rules(), Relayer.objects.get().name) == (None, "Relayer 1")


def test_rules_that_were_changed_concurrently_are_not_reverted(admin_client: Client) -> None:
    row = relayer({"max_value": "5"})
    opened = open_form(admin_client, change(row))
    SpendingPolicy.objects.update(rules={"max_value": "4"})
    admin_client.post(change(row), {**opened, "name": "Other"})
    assert (rules(), Relayer.objects.get().name) == ({"max_value": "4"}, "Other")
    page = admin_client.post(change(row), {**opened, "name": "Another", "spending-max_value": "6"})
    assert errors(page) == {"spending_rules": ["The rules were changed concurrently. Reload the page."]}
    assert (rules(), Relayer.objects.get().name) == ({"max_value": "4"}, "Other")


def test_staff_who_can_only_view_see_the_rules(client: Client) -> None:
    viewer = User.objects.create_user("viewer", is_staff=True)
    viewer.user_permissions.set(Permission.objects.filter(codename__in=["view_relayer", "view_accesstoken"]))
    client.force_login(viewer)
    FeeToken.objects.create(network="sepolia", symbol="USDC", address=TOKEN, decimals=0)
    page = client.get(change(relayer(RULES))).content.decode()
    for line in (
        "Value of a transaction: at most 0.5 ETH",
        f"Receiver {ALICE}: 0x12345678, no data",
        f"Receiver {BOB}: every call",
        f"Token {TOKEN}: at most 5 USDC per transaction; at most 7 USDC within 24 hours; to {ALICE}, {BOB}",
    ):
        assert line in page
    token, _ = issue(name="a", user=viewer, spending_rules=RULES)
    page = client.get(_token_page(token)).content.decode()
    assert "Value of a transaction: at most 0.5 coins" in page
    # Its rules apply on all networks.
    assert "at most 5 units per transaction" in page


@pytest.mark.one_engine
def test_amounts_of_a_token_are_in_the_symbol_that_staff_configured_for_its_contract(admin_client: Client) -> None:
    FeeToken.objects.create(network="sepolia", symbol="1USDC", address=TOKEN, decimals=6)
    FeeToken.objects.create(network="sepolia", symbol="units", address=OTHER_TOKEN, decimals=6)
    FeeToken.objects.create(network="sepolia", symbol="LONG", address=BOB, decimals=78)
    entry = {"contract": TOKEN, "max_amount": "5000000"}
    row = relayer({"tokens": [entry]})
    name, expected = "spending_tokens-0-max_amount", "must be a whole number of units"
    assert open_form(admin_client, change(row))[name] == "5 1USDC"
    for typed, amount in (("7", "7"), ("0.5 1usdc", "500000"), ("1 unit", "1"), ("2.0 1USDC", "2000000")):
        edit(admin_client, row, **{name: typed, "spending_tokens-0-contract": TOKEN.lower()})
        assert rules() == {"tokens": [entry | {"max_amount": amount}]}
    stored, example = rules(), f"{expected}, or an amount with its unit, for example 0.5 1USDC"
    unknown = f"{expected}: the symbol and decimals of this contract are unknown"
    for contract, network, typed, fault in (
        (TOKEN, "sepolia", "5 USDC", example),
        (TOKEN, "sepolia", "5 gwei", example),
        (TOKEN, "sepolia", "5.5", example),
        (TOKEN, "sepolia", "0.0000001 1USDC", "1USDC has at most 6 decimal places"),
        # Here, that is the smallest unit.
        (OTHER_TOKEN, "sepolia", "5.5 units", "units has at most 0 decimal places"),
        (BOB, "sepolia", "5 LONG", unknown),
        (ALICE, "sepolia", "5 1USDC", unknown),
        (TOKEN, "mainnet", "5 1USDC", unknown),
    ):
        typed_fields = {name: typed, "spending_tokens-0-contract": contract, "network": network}
        page = edit(admin_client, row, **typed_fields)
        (faulty,) = page.context_data["adminform"].form.fields["spending_rules"].editor.tokens.initial_forms
        assert (faulty.errors, rules()) == ({"max_amount": [fault]}, stored)


@pytest.mark.one_engine
def test_amounts_of_an_access_token_are_in_the_coins_of_all_networks(admin_client: Client, user: User) -> None:
    token, _ = issue(name="a", user=user, spending_rules={"max_value": str(ETHER), "max_gas_cost_per_day": "7"})
    opened = open_form(admin_client, _token_page(token))
    assert [opened[f"spending-{name}"] for name in ("max_value", "max_gas_cost_per_day")] == ["1 coin", "7 wei"]
    unit = "must be a whole number of wei, or an amount with its unit, for example 0.5 coins or 30 gwei"
    refused = admin_client.post(_token_page(token), {**opened, "spending-max_value": "0.5 ETH"})
    assert unit in refused.content.decode()
    admin_client.post(_token_page(token), {**opened, "spending-max_value": "0.5 coins"})
    spending = AccessToken.objects.get().spending
    assert spending is not None
    assert spending.rules == {"max_value": str(ETHER // 2), "max_gas_cost_per_day": "7"}


WARNING = "without “Maximum cost of gas within 24 hours”, the cost of gas is not limited"


@pytest.mark.parametrize(("gas", "is_warned"), [("", True), ("1", False)])
def test_saving_rules_without_a_limit_of_gas_warns(
    admin_client: Client, user: User, gas: str, is_warned: bool
) -> None:
    token, _ = issue(name="a", user=user)
    for page in (change(relayer()), _token_page(token)):
        typed = {**open_form(admin_client, page), "spending-max_value": "1", "spending-max_gas_cost_per_day": gas}
        answer = admin_client.post(page, typed, follow=True)
        assert any(str(message).endswith(WARNING) for message in answer.context["messages"]) is is_warned


def test_superusers_set_the_rules_of_a_token(admin_client: Client, user: User) -> None:
    token, _ = issue(name="a", user=user)
    opened = open_form(admin_client, _token_page(token))
    admin_client.post(_token_page(token), {**opened, **TYPED, "spending-max_value": str(ETHER // 2)})
    stored = AccessToken.objects.get()
    assert stored.spending is not None
    assert stored.spending.rules == RULES
    entry = AuditEntry.objects.latest("pk")
    assert entry.changes["spending_rules.max_value"] == [None, str(ETHER // 2)]


@pytest.mark.django_db(transaction=True)
def test_the_page_of_a_token_locks_its_family_from_the_oldest_on(admin_client: Client, user: User) -> None:
    """In another order, it and the page of its predecessor could wait for each other."""
    first = issue(name="a", user=user)[0]
    second = rotate(first.pk).new
    opened = open_form(admin_client, _token_page(second))

    def save() -> None:
        admin_client.post(_token_page(second), {**opened, **TYPED, "spending-max_value": "1"})
        connections.close_all()

    other = Thread(target=save)
    with transaction.atomic():
        AccessToken.objects.select_for_update(of=("self",)).get(pk=first.pk)
        other.start()
        wait_until(waits_for_a_lock)
        AccessToken.objects.select_for_update(of=("self",), nowait=connection.vendor == "postgresql").get(pk=second.pk)
    other.join()
    assert {token.spending for token in AccessToken.objects.all()} == {SpendingPolicy.objects.get()}


def test_other_staff_cannot_loosen_the_rules_of_a_token(admin_client: Client, client: Client) -> None:
    holder = User.objects.create_user("holder", is_staff=True)
    holder.user_permissions.set(Permission.objects.filter(codename__in=["change_accesstoken", "view_accesstoken"]))
    token, _ = issue(name="a", user=holder, spending_rules=RULES)
    sent = open_form(admin_client, _token_page(token))
    client.force_login(holder)
    answer = client.post(_token_page(token), {**sent, "spending-max_value": "", "allowed_networks": "10.0.0.0/8"})
    stored = AccessToken.objects.get()
    assert (answer.status_code, stored.allowed_networks) == (302, ["10.0.0.0/8"])
    assert stored.spending is not None
    assert stored.spending.rules == RULES


def _token_page(token: AccessToken) -> str:
    return f"/admin/tokens/accesstoken/{token.pk}/change/"
