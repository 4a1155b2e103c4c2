"""Storing spending rules with the relayer or token that holds them, by each way in."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connections, transaction

from relayer_service.fleet.planning import plan
from relayer_service.fleet.sections import ConcurrentChange
from relayer_service.models import AuditEntry
from relayers import guards
from relayers.models import Relayer
from relayers.writes import RelayerWrite
from spending.models import SpendingPolicy
from tests.api import Api
from tests.concurrency import wait_until, waits_for_a_lock
from tests.contract import bodies
from tests.relayers import factories
from tests.relayers.config_files import SIGNER, SPARSE, faults, load
from tests.spending.payloads import ALICE, BOB, TOKEN
from tokens.models import AccessToken
from tokens.writes import AccessTokenWrite, issue, rotate

pytestmark = pytest.mark.django_db

PATH = "/api/v1/relayers/relayer-1"
RULES: dict[str, Any] = {
    "max_value": "5",
    "receivers": [{"address": ALICE, "selectors": ["0x12345678"]}, {"address": BOB}],
    "tokens": [{"contract": TOKEN, "recipients": [ALICE], "max_amount_per_day": "7"}],
}
NO_GAS_LIMIT = ["spending_rules: without max_gas_cost_per_day, the cost of gas is not limited"]
BODY = {
    "id": "relayer-1",
    "name": "Relayer 1",
    "network": "sepolia",
    "network_type": "evm",
    "address": factories.ADDRESS,
    "signer_id": "signer-1",
    "paused": False,
    "system_disabled": False,
}


@pytest.fixture(autouse=True)
def lifecycle(settings: Any) -> None:
    settings.EXTENSIONS = ["lifecycle"]


@pytest.fixture
def manager(user: User) -> Api:
    return Api(issue(name="terraform", user=user, scopes=["manage", "read"])[1])


def rules() -> Any:
    policy = Relayer.objects.get().spending
    return policy and policy.rules


def set_rules(relayer: Relayer, values: dict[str, Any]) -> None:
    write = RelayerWrite(relayer)
    write.change({"spending_rules": values})
    with transaction.atomic():
        write.save()


def last_changes() -> Any:
    return AuditEntry.objects.order_by("-id")[0].changes


def test_a_relayer_is_created_and_shown_with_rules(manager: Api) -> None:
    factories.signer()
    body = {name: value for name, value in BODY.items() if name not in {"address", "system_disabled"}}
    created = manager.post("/api/v1/relayers", {**body, "spending_rules": {**RULES, "max_value": 5}})
    expected = bodies.success({**BODY, "spending_rules": RULES}, logs=NO_GAS_LIMIT)
    assert (created.status, created.body) == (201, expected)
    assert rules() == RULES
    assert manager.get(PATH).body == bodies.success({**BODY, "spending_rules": RULES})
    # The list of the interface document shows none.
    assert manager.get("/api/v1/relayers").body == bodies.page([BODY], total_items=1)


def test_rules_are_merged_by_name(manager: Api) -> None:
    set_rules(factories.relayer(), RULES)
    patch: Any = {"spending_rules": {"max_value": None, "max_value_per_day": 9, "receivers": []}}
    expected = {"max_value_per_day": "9", "receivers": [], "tokens": RULES["tokens"]}
    answer = manager.patch(PATH, patch)
    success = bodies.success({**BODY, "spending_rules": expected}, logs=NO_GAS_LIMIT)
    assert (answer.status, answer.body) == (200, success)
    assert rules() == expected
    # Null removes all rules, and keeps the policy.
    assert manager.patch(PATH, {"spending_rules": None}).body == bodies.success(BODY)
    assert (rules(), SpendingPolicy.objects.count()) == ({}, 1)


def test_rules_without_a_limit_of_gas_are_stored_with_a_warning(manager: Api) -> None:
    set_rules(factories.relayer(), {"max_value": "1"})
    limited = bodies.success({**BODY, "spending_rules": {"max_value": "1", "max_gas_cost_per_day": "9"}})
    assert manager.patch(PATH, {"spending_rules": {"max_gas_cost_per_day": 9}}).body == limited
    unlimited = bodies.success({**BODY, "spending_rules": {"max_value": "1"}}, logs=NO_GAS_LIMIT)
    assert manager.patch(PATH, {"spending_rules": {"max_gas_cost_per_day": None}}).body == unlimited


@pytest.mark.parametrize(
    ("patch", "fault"),
    [
        ({"max_valeu": None}, "spending_rules.max_valeu: unknown field"),
        (
            {"receivers": [{"address": ALICE, "selectors": ["0x12345678", "0x12345678"]}]},
            "spending_rules.receivers[0].selectors[1]: given more than once",
        ),
        ({"tokens": [{"max_amount": "1"}]}, "spending_rules.tokens[0].contract: this field is required"),
        ([], "spending_rules: an object is required"),
    ],
)
def test_a_fault_changes_nothing(manager: Api, patch: Any, fault: str) -> None:
    set_rules(factories.relayer(), RULES)
    answer = manager.patch(PATH, {"name": "Other", "spending_rules": patch})
    assert (answer.status, bodies.uncoded(answer.body)) == (400, bodies.bad_request(fault))
    assert (rules(), Relayer.objects.get().name) == (RULES, "Relayer 1")


@pytest.mark.django_db(transaction=True)
def test_a_change_that_waits_for_another_keeps_its_rules(manager: Api) -> None:
    set_rules(factories.relayer(), {"max_value": "1"})
    answers: list[Any] = []

    def patch() -> None:
        answers.append(manager.patch(PATH, {"spending_rules": {"max_value_per_day": 7}}).status)
        connections.close_all()

    other = threading.Thread(target=patch)
    with transaction.atomic():
        set_rules(Relayer.objects.select_for_update().get(), {"max_value": "2"})
        other.start()
        wait_until(waits_for_a_lock)
    other.join()
    assert (answers, rules()) == ([200], {"max_value": "2", "max_value_per_day": "7"})


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ({}, {"max_value": "5"}, {"spending_rules.max_value": [None, "5"]}),
        ({"max_value": "5"}, {"max_value": "6"}, {"spending_rules.max_value": ["5", "6"]}),
        ({}, {"receivers": []}, {"spending_rules.receivers": [None, "none"]}),
        ({"receivers": []}, {}, {"spending_rules.receivers": ["none", None]}),
        ({"receivers": [{"address": BOB}]}, {}, {"spending_rules.receivers": [[{"address": BOB}], None]}),
    ],
)
def test_the_audit_log_shows_old_and_new_rules(
    user: User, before: dict[str, Any], after: dict[str, Any], changes: dict[str, Any]
) -> None:
    relayer = factories.relayer()
    set_rules(relayer, before)
    set_rules(Relayer.objects.get(), after)
    assert last_changes() == changes
    token, _ = issue(name="a", user=user, spending_rules=before)
    write = AccessTokenWrite(token)
    write.change({"spending_rules": after})
    with transaction.atomic():
        write.save()
    assert last_changes() == changes


def test_guards_are_notified_of_changed_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    relayer = factories.relayer()
    set_rules(relayer, {"max_value": "5"})
    notified: list[Any] = []
    monkeypatch.setattr(guards, "note_change", lambda keys, columns: notified.append((keys, "spending" in columns)))
    set_rules(Relayer.objects.get(), {"max_value": "4"})
    assert notified == [([relayer.pk], True)]


def test_a_replacement_has_the_policy_of_the_token_before(user: User) -> None:
    token, _ = issue(name="payments", user=user, spending_rules=RULES)
    successor = rotate(AccessToken.objects.get().pk).new
    stored = AccessToken.objects.get(pk=successor.pk)
    assert stored.spending is not None
    assert (stored.spending_id, stored.spending.rules) == (token.spending_id, RULES)
    assert SpendingPolicy.objects.count() == 1


def document(**changes: Any) -> dict[str, Any]:
    return {"signers": [SIGNER], "notifications": [], "relayers": [{**SPARSE, **changes}]}


def test_a_fleet_file_sets_changes_keeps_and_removes_rules(tmp_path: Path) -> None:
    def load_rules(**changes: Any) -> Any:
        return load(document(**changes), tmp_path)[0][1], rules()

    given = {**RULES, "max_value": 5}
    assert load_rules(spending_rules=given) == ("relayer relayer-1: created", RULES)
    assert load_rules(spending_rules=given) == ("relayer relayer-1: unchanged", RULES)
    assert load_rules() == ("relayer relayer-1: unchanged", RULES)
    updated = "relayer relayer-1: updated (spending_rules.max_value)"
    assert load_rules(spending_rules={**RULES, "max_value": "6"}) == (updated, {**RULES, "max_value": "6"})
    assert load_rules(spending_rules={})[1] == {}
    bad = {"max_value": None, "receivers": [{"address": ALICE}, {"address": ALICE}]}
    assert faults(document(spending_rules=bad), tmp_path) == [
        "relayers[0].spending_rules.max_value: null is not allowed here",
        "relayers[0].spending_rules.receivers[1].address: given more than once",
    ]


def test_a_dump_has_the_rules_and_loads_as_unchanged(tmp_path: Path) -> None:
    load(document(spending_rules=RULES), tmp_path)
    output = io.StringIO()
    call_command("dump_config", stdout=output, stderr=io.StringIO())
    dumped = json.loads(output.getvalue())["relayers"][0]["spending_rules"]
    assert json.dumps(dumped) == json.dumps(RULES)
    assert load(document(spending_rules=dumped), tmp_path)[0][1] == "relayer relayer-1: unchanged"


def test_rules_that_changed_after_a_file_was_checked_are_not_overwritten(tmp_path: Path) -> None:
    load(document(spending_rules=RULES), tmp_path)
    planned = plan(document(spending_rules={}))
    set_rules(Relayer.objects.get(), {"max_value": "1"})
    with pytest.raises(ConcurrentChange):
        planned.apply()
    assert rules() == {"max_value": "1"}
