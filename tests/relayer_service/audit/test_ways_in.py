"""Every way in which a resource is changed leaves one entry, with who did it and what is different."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.test import Client

from chain.nodes import failover
from notifications.models import Delivery, Notification
from notifications.replay import replay
from relayer_service.database.clock import DatabaseNow
from relayer_service.models import AuditEntry, Job
from relayers.health import checking
from relayers.health.checking import AccountReading
from relayers.models import Relayer, RelayerHealth
from rpc.models import FeeToken, PriceSource
from signers import signing
from signers.models import Signer
from tests.api import Api
from tests.notifications.admin_pages import confirm
from tests.notifications.clock import clock
from tests.notifications.factories import emit_test, exchange, outcome
from tests.relayer_service.audit.entries import UNKNOWN, written_by
from tests.relayer_service.jobs import run_jobs
from tests.relayers import admin_pages, factories
from tests.relayers.factories import ADDRESS, KEY, set_paused
from tokens.models import AccessToken
from tokens.writes import issue

__all__ = ["clock"]

pytestmark = pytest.mark.django_db

STAFF = UNKNOWN | {"actor_kind": "user", "actor": "admin", "request_id": "request-1", "address": "192.0.2.7"}
TOKEN = UNKNOWN | {"actor_kind": "token", "actor": "tests", "request_id": "request-1", "address": "127.0.0.1"}
FILE = UNKNOWN | {"actor_kind": "fleet file", "actor": "fleet.json"}
CHECK = UNKNOWN | {"actor_kind": "health check", "actor": "health check"}
SENDER = UNKNOWN | {"actor_kind": "worker", "actor": "webhook sender"}
HOOK_URL = "https://hooks.example.com/***"
COMMAND = UNKNOWN | {"actor_kind": "command", "actor": "issue_token"}

Entry = dict[str, Any]


def entry(actor: Entry, action: str, object_type: str, object_id: str, changes: Entry, reason: str = "") -> Entry:
    return actor | {
        "action": action,
        "object_type": object_type,
        "object_id": object_id,
        "changes": changes,
        "reason": reason,
    }


@pytest.fixture
def staff(admin_client: Client) -> Client:
    admin_client.defaults |= {"HTTP_X_REQUEST_ID": "request-1", "REMOTE_ADDR": "192.0.2.7"}
    return admin_client


@pytest.fixture
def no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every node is on the chain that is expected of it: these tests are about rows."""
    monkeypatch.setattr(failover, "chain_ids", lambda urls: [11155111 for _ in urls])


@pytest.fixture
def caller(api: Api) -> Callable[[str, str, Any], Any]:
    return lambda method, path, body: api(method, path, body, headers={"X-Request-ID": "request-1"})


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., None]:
    def run(**lists: Any) -> None:
        file = tmp_path / "fleet.json"
        file.write_text(json.dumps(lists))
        call_command("load_config", str(file), verbosity=0)

    return run


def token_entry(action: str, object_type: str, object_id: str, changes: Entry) -> Entry:
    key = AccessToken.objects.get().key
    return entry(TOKEN | {"actor_key": key}, action, object_type, object_id, changes)


# Over REST.


def test_a_signer_that_a_token_creates(caller: Callable[..., Any]) -> None:
    body = {"id": "signer-1", "type": "provider_a_kms", "config": {"key_id": "a", "region": "eu-central-1"}}
    changes = {
        "type": [None, "provider_a_kms"],
        "config.key_id": [None, "a"],
        "config.region": [None, "eu-central-1"],
    }
    written = written_by(lambda: caller("POST", "/api/v1/signers", body))
    assert written == [token_entry("created", "signer", "signer-1", changes)]


def test_a_notification_that_a_token_changes(caller: Callable[..., Any]) -> None:
    factories.notification()
    body = {"url": "https://other.example.com/hook", "signing_key": "key-SECRET"}
    changes = {"url": ["https://hooks.example.com/***", "https://other.example.com/***"], "signing_key": "set"}
    written = written_by(lambda: caller("PATCH", "/api/v1/notifications/hook-1", body))
    assert written == [token_entry("changed", "notification", "hook-1", changes)]


@pytest.mark.parametrize("body", [{}, {"url": "https://hooks.example.com/relayers"}, {"signing_key": "the same"}])
def test_a_request_that_changes_nothing_is_not_recorded(caller: Callable[..., Any], body: Any) -> None:
    Notification.objects.filter(pk=factories.notification().pk).delete()
    Notification.objects.create(identifier="hook-1", url="https://hooks.example.com/relayers", signing_key="the same")
    assert written_by(lambda: caller("PATCH", "/api/v1/notifications/hook-1", body)) == []


@pytest.mark.django_db(transaction=True)
def test_a_request_that_is_refused_is_not_recorded(caller: Callable[..., Any]) -> None:
    factories.signer()
    body = {"id": "signer-1", "type": "plain", "config": {"key": KEY}}
    assert written_by(lambda: caller("POST", "/api/v1/signers", body)) == []


# In the admin.


def test_a_relayer_that_staff_create_paused(staff: Client) -> None:
    changes = {
        "name": [None, "Relayer 1"],
        "network": [None, "sepolia"],
        "network_type": [None, "evm"],
        "address": [None, ADDRESS],
        "signer_id": [None, "signer-1"],
        "paused": [None, True],
        "balance_is_low": [None, False],
    }
    written = written_by(lambda: admin_pages.add(staff, paused="on"))
    assert written == [entry(STAFF, "created", "relayer", "relayer-1", changes)]


@pytest.mark.usefixtures("no_node")
def test_a_relayer_that_staff_change_in_all_its_fields(staff: Client) -> None:
    relayer = factories.relayer(rpc_urls=[admin_pages.rpc_url(admin_pages.A)], policies={"min_balance": 2**128 - 1})
    hook = factories.notification()
    change = {"name": "Another", "notification": hook.pk, "policy_min_balance": "7"}
    change |= {"rpc_urls-0-url": admin_pages.A.replace("key", "other-key")}
    shown = json.dumps(relayer.masked_rpc_urls)
    changes = {
        "name": ["Relayer 1", "Another"],
        "notification_id": [None, "hook-1"],
        "custom_rpc_urls": f"{shown} → {shown}, the masked part changed",
        "policies.min_balance": [2**128 - 1, 7],
    }
    written = written_by(lambda: admin_pages.edit(staff, relayer, **change))
    assert written == [entry(STAFF, "changed", "relayer", "relayer-1", changes)]


def test_a_form_that_is_sent_as_it_was_is_not_recorded(staff: Client) -> None:
    relayer = factories.relayer()
    assert written_by(lambda: admin_pages.edit(staff, relayer)) == []


def test_relayers_that_staff_pause_and_delete_in_the_list(staff: Client) -> None:
    relayers = [factories.relayer(identifier=name) for name in ("one", "two")]
    chosen = {"_selected_action": [relayer.pk for relayer in relayers]}
    pause = chosen | {"action": "pause_selected"}
    written = written_by(lambda: confirm(staff, admin_pages.LIST, pause, reason="Why."))
    paused = {"paused": [False, True]}
    assert written == [entry(STAFF, "changed", "relayer", name, paused, "Why.") for name in ("one", "two")]

    confirmed = chosen | {"action": "delete_selected", "post": "yes"}
    written = written_by(lambda: staff.post(admin_pages.LIST, confirmed))
    was = {
        "name": ["Relayer 1", None],
        "network": ["sepolia", None],
        "network_type": ["evm", None],
        "address": [ADDRESS, None],
        "signer_id": ["signer-1", None],
        "paused": [True, None],
        "balance_is_low": [False, None],
    }
    # Django lists the newest first.
    assert written == [entry(STAFF, "deleted", "relayer", name, was) for name in ("two", "one")]
    assert not Relayer.objects.exists()


def test_a_signer_that_staff_create_verify_change_and_delete(staff: Client) -> None:
    form = {"identifier": "signer-1", "type": "plain", "plain__key": KEY}
    written = written_by(lambda: staff.post("/admin/signers/signer/add/", form))
    assert written == [
        entry(STAFF, "created", "signer", "signer-1", {"type": [None, "plain"], "config.key": "set"}),
    ]
    pk = Signer.objects.get().pk
    verify = {"action": "verify_selected", "_selected_action": [pk]}
    confirm(staff, "/admin/signers/signer/", verify)
    written = written_by(run_jobs)
    starter = UNKNOWN | {"actor_kind": "user", "actor": "admin", "request_id": f"job-{Job.objects.get().pk}"}
    assert written == [entry(starter, "changed", "signer", "signer-1", {"verified_identity": ["", ADDRESS]})]

    # Another key, of which nothing is known.
    new = {"plain__key": "0x" + "11" * 32}
    written = written_by(lambda: staff.post(f"/admin/signers/signer/{pk}/change/", new))
    changes: Entry = {"verified_identity": [ADDRESS, ""], "config.key": "changed"}
    assert written == [entry(STAFF, "changed", "signer", "signer-1", changes)]

    written = written_by(lambda: staff.post(f"/admin/signers/signer/{pk}/delete/", {"post": "yes"}))
    changes = {"type": ["plain", None], "config.key": "removed"}
    assert written == [entry(STAFF, "deleted", "signer", "signer-1", changes)]


def test_a_verification_that_finds_the_same_is_not_recorded() -> None:
    signer = factories.signer()
    signing.verify(signer)
    assert written_by(lambda: signing.verify(signer)) == []


def test_a_notification_that_staff_change_test_and_delete(staff: Client) -> None:
    hook = factories.notification()
    page = f"/admin/notifications/notification/{hook.pk}"
    form = {"url": "https://hooks.example.com/other", "initial-url": hook.url, "new_signing_key": "key-SECRET"}
    written = written_by(lambda: staff.post(f"{page}/change/", form | {"type": "webhook", "initial-type": "webhook"}))
    changes: Entry = {"url": f"{HOOK_URL} → {HOOK_URL}, the masked part changed", "signing_key": "set"}
    assert written == [entry(STAFF, "changed", "notification", "hook-1", changes)]

    written = written_by(lambda: staff.post(f"{page}/send_test_event/"))
    told = f"Sent a test event, {Delivery.objects.get()}."
    assert written == [entry(STAFF, "acted", "notification", "hook-1", {}, told)]

    Delivery.objects.update(state="delivered", due_at=None)
    written = written_by(lambda: staff.post(f"{page}/delete/", {"post": "yes"}))
    changes = {
        "type": ["webhook", None],
        "url": ["https://hooks.example.com/***", None],
        "enabled": [True, None],
        "events": [["relayer.*", "transaction.*"], None],
        "signing_key": "removed",
    }
    assert written == [entry(STAFF, "deleted", "notification", "hook-1", changes)]


def test_a_notification_that_staff_disable(staff: Client) -> None:
    hook = factories.notification()
    form = {"url": hook.url, "initial-url": hook.url, "type": "webhook", "initial-type": "webhook"}
    page = f"/admin/notifications/notification/{hook.pk}/change/"
    written = written_by(lambda: staff.post(page, form | {"initial-enabled": "True"}))
    assert written == [entry(STAFF, "changed", "notification", "hook-1", {"enabled": [True, False]})]


def test_a_delivery_that_staff_replay(staff: Client) -> None:
    delivery = emit_test(factories.notification())
    Delivery.objects.update(state="failed", due_at=None)
    page = f"/admin/notifications/delivery/{delivery.pk}"
    written = written_by(lambda: staff.post(f"{page}/replay/"))
    assert written == [entry(STAFF, "acted", "delivery", delivery.identifier, {}, "Replayed.")]
    assert "Replayed" in staff.get(f"{page}/history/").content.decode()


def test_a_token_that_staff_issue_change_disable_and_delete(staff: Client, admin_user: User) -> None:
    form = {"name": "ci", "user": admin_user.pk, "enabled": "on", "allowed_networks": "10.0.0.0/8"}
    written = written_by(lambda: staff.post("/admin/tokens/accesstoken/add/", form))
    token = AccessToken.objects.get()
    name, page = str(token), f"/admin/tokens/accesstoken/{token.pk}"
    changes: Entry = {
        "name": [None, "ci"],
        "user": [None, "admin"],
        "enabled": [None, True],
        "allowed_networks": [None, ["10.0.0.0/8"]],
    }
    assert written == [entry(STAFF, "created", "access token", name, changes)]

    initial = {f"initial-{field}": value for field, value in form.items()}
    written = written_by(lambda: staff.post(f"{page}/change/", form | initial | {"name": "deploy"}))
    name = str(AccessToken.objects.get())
    assert written == [entry(STAFF, "changed", "access token", name, {"name": ["ci", "deploy"]})]

    disable = {"action": "disable", "_selected_action": [token.pk]}
    written = written_by(lambda: staff.post("/admin/tokens/accesstoken/", disable))
    assert written == [entry(STAFF, "changed", "access token", name, {"enabled": [True, False]})]
    assert written_by(lambda: staff.post("/admin/tokens/accesstoken/", disable)) == []

    written = written_by(lambda: staff.post(f"{page}/delete/", {"post": "yes"}))
    changes = {
        "name": ["deploy", None],
        "user": ["admin", None],
        "enabled": [False, None],
        "allowed_networks": [["10.0.0.0/8"], None],
    }
    assert written == [entry(STAFF, "deleted", "access token", name, changes)]


def test_tokens_that_go_with_their_user(staff: Client, user: User) -> None:
    token, _ = issue(name="ci", user=user)
    written = written_by(lambda: staff.post(f"/admin/auth/user/{user.pk}/delete/", {"post": "yes"}))
    assert [(row["action"], row["object_type"], row["object_id"]) for row in written] == [
        ("deleted", "user", "alice"),
        ("deleted", "access token", str(token)),
    ]


def test_a_fee_token_whose_source_staff_change(staff: Client) -> None:
    token = FeeToken.objects.create(network="sepolia", symbol="USDC", address=ADDRESS)
    PriceSource.objects.create(token=token, kind="fixed", rate_text="3000", max_age_seconds=60)
    reader = admin_pages.FormReader("feetoken_form")
    reader.feed(staff.get(f"/admin/rpc/feetoken/{token.pk}/change/").content.decode())
    form = {name: value for name, value in reader.fields.items() if "__prefix__" not in name}
    change = {"margin_bps": "50", "sources-0-rate_text": "3100"}
    written = written_by(lambda: staff.post(f"/admin/rpc/feetoken/{token.pk}/change/", form | change))
    source = {"kind": "fixed", "rate": "3000", "max_age_seconds": 60}
    changes = {"margin_bps": [0, 50], "sources": [[source], [source | {"rate": "3100"}]]}
    assert written == [entry(STAFF, "changed", "fee token", "USDC on sepolia", changes)]


def test_a_user_whose_rights_and_password_staff_change(staff: Client, user: User) -> None:
    group, may = Group.objects.create(name="operators"), Permission.objects.get(codename="view_auditentry")
    page = f"/admin/auth/user/{user.pk}"
    form = {"username": "alice", "is_active": "on", "is_staff": "on", "groups": group.pk, "user_permissions": may.pk}
    form |= {"date_joined_0": "2026-01-01", "date_joined_1": "12:00:00"}
    written = written_by(lambda: staff.post(f"{page}/change/", form))
    changes: Entry = {
        "is_staff": [False, True],
        "groups": [[], ["operators"]],
        "user_permissions": [[], ["relayer_service.view_auditentry"]],
    }
    assert written == [entry(STAFF, "changed", "user", "alice", changes)]

    password = {"password1": "another-password-SECRET", "password2": "another-password-SECRET"}
    password |= {"usable_password": "true", "set-password": "1"}
    written = written_by(lambda: staff.post(f"{page}/password/", password))
    assert written == [entry(STAFF, "changed", "user", "alice", {"password": "changed"})]


def test_a_group_that_staff_create(staff: Client) -> None:
    may = Permission.objects.get(codename="view_relayer")
    form = {"name": "operators", "permissions": may.pk}
    written = written_by(lambda: staff.post("/admin/auth/group/add/", form))
    changes = {"name": [None, "operators"], "permissions": [None, ["relayers.view_relayer"]]}
    assert written == [entry(STAFF, "created", "group", "operators", changes)]


# By fleet files, checks, the sender and commands.

SIGNER = {"id": "signer-1", "type": "plain", "config": {"key": KEY}}
HOOK = {"id": "hook-1", "type": "webhook", "url": "https://hooks.example.com/a", "signing_key": "key-SECRET"}
RELAYER = {"id": "relayer-1", "name": "R", "network": "sepolia", "network_type": "evm", "signer_id": "signer-1"}
FIXED = {"kind": "fixed", "rate": "3000", "max_age_seconds": 60}
USDC = {"network": "sepolia", "symbol": "USDC", "address": ADDRESS, "sources": [FIXED]}


def test_a_fleet_file_that_creates_and_changes_every_resource(load: Callable[..., None]) -> None:
    relayer: Entry = RELAYER | {"paused": True}
    written = written_by(lambda: load(signers=[SIGNER], notifications=[HOOK], relayers=[relayer], fee_tokens=[USDC]))
    assert written == [
        entry(FILE, "created", "signer", "signer-1", {"type": [None, "plain"], "config.key": "set"}),
        entry(
            FILE,
            "created",
            "notification",
            "hook-1",
            {
                "type": [None, "webhook"],
                "url": [None, "https://hooks.example.com/***"],
                "enabled": [None, True],
                "events": [None, ["relayer.*", "transaction.*"]],
                "signing_key": "set",
            },
        ),
        entry(
            FILE,
            "created",
            "relayer",
            "relayer-1",
            {
                "name": [None, "R"],
                "network": [None, "sepolia"],
                "network_type": [None, "evm"],
                "address": [None, ADDRESS],
                "signer_id": [None, "signer-1"],
                "paused": [None, True],
                "balance_is_low": [None, False],
            },
        ),
        entry(
            FILE,
            "created",
            "fee token",
            "USDC on sepolia",
            {
                "network": [None, "sepolia"],
                "symbol": [None, "USDC"],
                "address": [None, ADDRESS],
                "enabled": [None, True],
                "margin_bps": [None, 0],
                "max_spread_bps": [None, 200],
                "sources": [None, [FIXED]],
            },
        ),
    ]
    hook, relayer = HOOK | {"signing_key": "another-SECRET"}, RELAYER | {"paused": False, "notification_id": "hook-1"}
    token = USDC | {"sources": [FIXED | {"rate": "3100"}]}
    written = written_by(lambda: load(signers=[SIGNER], notifications=[hook], relayers=[relayer], fee_tokens=[token]))
    changes = {"notification_id": [None, "hook-1"], "paused": [True, False]}
    assert written == [
        entry(FILE, "changed", "notification", "hook-1", {"signing_key": "changed"}),
        entry(FILE, "changed", "relayer", "relayer-1", changes),
        entry(
            FILE,
            "changed",
            "fee token",
            "USDC on sepolia",
            {"sources": [[FIXED], [FIXED | {"rate": "3100"}]]},
        ),
    ]
    assert written_by(lambda: load(signers=[SIGNER], relayers=[relayer], fee_tokens=[token])) == []


def test_a_health_check_that_disables_and_enables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "FAILURES_TO_DISABLE", 1)
    factories.relayer(policies={"min_balance": 10})

    def check(reading: AccountReading) -> list[Entry]:
        RelayerHealth.objects.update(due_at=DatabaseNow())
        (relayer,) = RelayerHealth.objects.select_related("relayer").claim(1, checking.lease_length())
        return written_by(lambda: checking.write([(relayer, reading)]))

    details = "The nonce could not be read from any node: it hangs."
    disabled = {"system_disabled": [False, True]}
    assert check(AccountReading(reason="it hangs")) == [
        entry(CHECK, "changed", "relayer", "relayer-1", disabled, details)
    ]
    # For another reason, and still.
    assert check(AccountReading(reason="it is gone")) == []
    enabled = {"system_disabled": [True, False], "balance_is_low": [False, True]}
    assert check(AccountReading(nonce=7, balance=9)) == [entry(CHECK, "changed", "relayer", "relayer-1", enabled)]
    # What a check reads is no change that people look for.
    assert check(AccountReading(nonce=8, balance=8)) == []


def test_a_target_that_fails_and_is_gone_and_is_sent_to_again(clock: Any) -> None:
    hook = factories.notification()
    emit_test(hook)
    (row,) = exchange(hook)
    noon = "2026-01-01 12:00:00 UTC"
    written = written_by(lambda: exchange(hook, outcome(row, 410), lease=row.lease))
    changes = {"failing_since": [None, noon], "gone_at": [None, noon]}
    assert written == [entry(SENDER, "changed", "notification", "hook-1", changes)]

    written = written_by(lambda: replay(Delivery.objects.all()))
    assert written == [entry(UNKNOWN, "changed", "notification", "hook-1", {"gone_at": [noon, None]})]


def test_a_test_event_that_revives_a_target(staff: Client, clock: Any) -> None:
    hook = factories.notification()
    Notification.objects.update(gone_at=clock.now)
    written = written_by(lambda: staff.post(f"/admin/notifications/notification/{hook.pk}/send_test_event/"))
    told = f"Sent a test event, {Delivery.objects.get()}."
    changes = {"gone_at": ["2026-01-01 12:00:00 UTC", None]}
    assert written == [entry(STAFF, "changed", "notification", "hook-1", changes, told)]


def test_a_token_that_the_command_issues(user: User, capsys: pytest.CaptureFixture[str]) -> None:
    written = written_by(lambda: call_command("issue_token", "ci", user="alice"))
    changes = {"name": [None, "ci"], "user": [None, "alice"], "enabled": [None, True]}
    assert written == [entry(COMMAND, "created", "access token", str(AccessToken.objects.get()), changes)]


def test_a_pause_is_recorded_with_its_reason_and_without_an_actor_all_the_same() -> None:
    relayer = factories.relayer()
    written = written_by(lambda: set_paused(relayer, True, "the vault is being moved"))
    paused = {"paused": [False, True]}
    assert written == [entry(UNKNOWN, "changed", "relayer", "relayer-1", paused, "the vault is being moved")]
    assert AuditEntry.objects.for_row(relayer).get().lines == ["paused: no → yes"]
    assert written_by(lambda: set_paused(relayer, True)) == []
