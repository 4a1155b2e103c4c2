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
from spending.models import SpendingPolicy
from tests.concurrency import wait_until, waits_for_a_lock
from tests.relayers import factories
from tests.relayers.admin_pages import add, change, edit, errors, open_form
from tests.spending.payloads import ALICE, BOB, TOKEN
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
    page = client.get(change(relayer(RULES))).content.decode()
    for line in (
        "Value of a transaction: at most 0.5 ETH",
        f"Receiver {ALICE}: 0x12345678, no data",
        f"Receiver {BOB}: every call",
        f"Token {TOKEN}: at most 5 per transaction; at most 7 within 24 hours; to {ALICE}, {BOB}",
    ):
        assert line in page
    token, _ = issue(name="a", user=viewer, spending_rules=RULES)
    page = client.get(_token_page(token)).content.decode()
    assert "Value of a transaction: at most 500000000000000000 wei" in page


WARNING = "without max_gas_cost_per_day, the cost of gas is not limited"


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
