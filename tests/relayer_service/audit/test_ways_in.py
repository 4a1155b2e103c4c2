"""Every way in which a resource is changed leaves one entry, with who did it and what is different."""

import json
from collections.abc import Callable
from functools import partial
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
    what = {"action": action, "object_type": object_type, "object_id": object_id}
    return actor | what | {"changes": changes, "reason": reason}


def created(**values: Any) -> Entry:
    return {name: [None, value] for name, value in values.items()}


def deleted(changes: Entry) -> Entry:
    """Return the changes of a deletion, from those of the creation."""
    return {name: [change[1], None] if isinstance(change, list) else "removed" for name, change in changes.items()}


NEW_SIGNER = created(type="plain") | {"config.key": "set"}
NEW_HOOK = created(type="webhook", url=HOOK_URL, enabled=True, events=["relayer.*", "transaction.*"])
NEW_HOOK |= {"signing_key": "set"}
NEW_RELAYER = created(network="sepolia", network_type="evm", address=ADDRESS, signer_id="signer-1")
NEW_RELAYER |= created(name="Relayer 1", paused=True, balance_is_low=False)
FIXED = {"kind": "fixed", "rate": "3000", "max_age_seconds": 60}
USDC = {"network": "sepolia", "symbol": "USDC", "address": ADDRESS, "sources": [FIXED]}
SIGNER = {"id": "signer-1", "type": "plain", "config": {"key": KEY}}
HOOK = {"id": "hook-1", "type": "webhook", "url": "https://hooks.example.com/a", "signing_key": "key-SECRET"}
RELAYER = {
    "id": "relayer-1",
    "network": "sepolia",
    "network_type": "evm",
    "signer_id": "signer-1",
    "name": "Relayer 1",
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


def test_a_signer_that_a_token_creates_and_no_request_that_is_refused(caller: Callable[..., Any]) -> None:
    body = {"id": "signer-1", "type": "provider_a_kms", "config": {"key_id": "a", "region": "eu-central-1"}}
    changes = created(type="provider_a_kms") | {"config.key_id": [None, "a"], "config.region": [None, "eu-central-1"]}
    written = written_by(lambda: caller("POST", "/api/v1/signers", body))
    assert written == [token_entry("created", "signer", "signer-1", changes)]
    assert written_by(lambda: caller("POST", "/api/v1/signers", body | {"id": 1})) == []


def test_a_notification_that_a_token_changes_once(caller: Callable[..., Any]) -> None:
    factories.notification()
    body = {"url": "https://other.example.com/hook", "signing_key": "key-SECRET"}
    changes = {"url": [HOOK_URL, "https://other.example.com/***"], "signing_key": "set"}
    written = written_by(lambda: caller("PATCH", "/api/v1/notifications/hook-1", body))
    assert written == [token_entry("changed", "notification", "hook-1", changes)]
    for again in ({}, body):
        assert written_by(partial(caller, "PATCH", "/api/v1/notifications/hook-1", again)) == []


def test_a_relayer_that_staff_create_paused(staff: Client) -> None:
    written = written_by(lambda: admin_pages.add(staff, paused="on"))
    assert written == [entry(STAFF, "created", "relayer", "relayer-1", NEW_RELAYER)]


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
    assert written_by(lambda: admin_pages.edit(staff, Relayer.objects.get())) == []


def test_relayers_that_staff_pause_and_delete_in_the_list(staff: Client) -> None:
    relayers = [factories.relayer(identifier=name) for name in ("one", "two")]
    chosen = {"_selected_action": [relayer.pk for relayer in relayers]}
    pause = chosen | {"action": "pause_selected"}
    written = written_by(lambda: confirm(staff, admin_pages.LIST, pause, reason="Why."))
    paused = {"paused": [False, True]}
    assert written == [entry(STAFF, "changed", "relayer", name, paused, "Why.") for name in ("one", "two")]

    confirmed = chosen | {"action": "delete_selected", "post": "yes"}
    written = written_by(lambda: staff.post(admin_pages.LIST, confirmed))
    # Django lists the newest first.
    assert written == [entry(STAFF, "deleted", "relayer", name, deleted(NEW_RELAYER)) for name in ("two", "one")]
    assert not Relayer.objects.exists()


def test_a_signer_that_staff_create_verify_change_and_delete(staff: Client) -> None:
    form = {"identifier": "signer-1", "type": "plain", "plain__key": KEY}
    written = written_by(lambda: staff.post("/admin/signers/signer/add/", form))
    assert written == [entry(STAFF, "created", "signer", "signer-1", NEW_SIGNER)]
    pk = Signer.objects.get().pk
    verify = {"action": "verify_selected", "_selected_action": [pk]}
    confirm(staff, "/admin/signers/signer/", verify)
    written = written_by(run_jobs)
    starter = UNKNOWN | {"actor_kind": "user", "actor": "admin", "request_id": f"job-{Job.objects.get().pk}"}
    assert written == [entry(starter, "changed", "signer", "signer-1", {"verified_identity": ["", ADDRESS]})]
    assert written_by(lambda: signing.verify(Signer.objects.get())) == []

    # Another key, of which nothing is known.
    new = {"plain__key": "0x" + "11" * 32}
    written = written_by(lambda: staff.post(f"/admin/signers/signer/{pk}/change/", new))
    changes: Entry = {"verified_identity": [ADDRESS, ""], "config.key": "changed"}
    assert written == [entry(STAFF, "changed", "signer", "signer-1", changes)]

    written = written_by(lambda: staff.post(f"/admin/signers/signer/{pk}/delete/", {"post": "yes"}))
    assert written == [entry(STAFF, "deleted", "signer", "signer-1", deleted(NEW_SIGNER))]


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

    # One that revives a target says so too.
    Notification.objects.update(gone_at="2026-01-01T12:00:00Z")
    Delivery.objects.all().delete()
    written = written_by(lambda: staff.post(f"{page}/send_test_event/"))
    told = f"Sent a test event, {Delivery.objects.get()}."
    revived = {"gone_at": ["2026-01-01 12:00:00 UTC", None]}
    assert written == [entry(STAFF, "changed", "notification", "hook-1", revived, told)]

    Delivery.objects.update(state="delivered", due_at=None)
    written = written_by(lambda: staff.post(f"{page}/delete/", {"post": "yes"}))
    assert written == [entry(STAFF, "deleted", "notification", "hook-1", deleted(NEW_HOOK))]


def test_a_delivery_that_staff_replay(staff: Client) -> None:
    delivery = emit_test(factories.notification())
    Delivery.objects.update(state="failed", due_at=None)
    page = f"/admin/notifications/delivery/{delivery.pk}"
    written = written_by(lambda: staff.post(f"{page}/replay/"))
    assert written == [entry(STAFF, "acted", "delivery", delivery.identifier, {}, "Replayed.")]
    assert "Replayed" in staff.get(f"{page}/history/").content.decode()


def test_a_token_that_staff_issue_change_disable_and_delete(staff: Client, admin_user: User) -> None:
    form = {"name": "ci", "user": admin_user.pk, "enabled": "on", "scopes": "none", "allowed_networks": "10.0.0.0/8"}
    written = written_by(lambda: staff.post("/admin/tokens/accesstoken/add/", form))
    token = AccessToken.objects.get()
    name, page = str(token), f"/admin/tokens/accesstoken/{token.pk}"
    changes = created(name="ci", user="admin", enabled=True, allowed_networks=["10.0.0.0/8"])
    assert written == [entry(STAFF, "created", "access token", name, changes)]

    initial = {f"initial-{field}": value for field, value in form.items()}
    written = written_by(lambda: staff.post(f"{page}/change/", form | initial | {"name": "deploy"}))
    name = str(AccessToken.objects.get())
    assert written == [entry(STAFF, "changed", "access token", name, {"name": ["ci", "deploy"]})]

    disable = {"action": "disable", "_selected_action": [token.pk], "confirmed": str(token.pk)}
    written = written_by(lambda: staff.post("/admin/tokens/accesstoken/", disable))
    assert written == [entry(STAFF, "changed", "access token", name, {"enabled": [True, False]})]
    assert written_by(lambda: staff.post("/admin/tokens/accesstoken/", disable)) == []

    changes = deleted(changes | created(name="deploy", enabled=False))
    written = written_by(lambda: staff.post(f"{page}/delete/", {"post": "yes"}))
    assert written == [entry(STAFF, "deleted", "access token", name, changes)]


def test_a_fee_token_whose_source_staff_change(staff: Client) -> None:
    token = FeeToken.objects.create(network="sepolia", symbol="USDC", address=ADDRESS)
    PriceSource.objects.create(token=token, kind="fixed", rate_text="3000", max_age_seconds=60)
    reader = admin_pages.FormReader("feetoken_form")
    reader.feed(staff.get(f"/admin/rpc/feetoken/{token.pk}/change/").content.decode())
    form = {name: value for name, value in reader.fields.items() if "__prefix__" not in name}
    change = {"margin_bps": "50", "sources-0-rate_text": "3100"}
    written = written_by(lambda: staff.post(f"/admin/rpc/feetoken/{token.pk}/change/", form | change))
    changes = {"margin_bps": [0, 50], "sources": [[FIXED], [FIXED | {"rate": "3100"}]]}
    assert written == [entry(STAFF, "changed", "fee token", "USDC on sepolia", changes)]


def test_a_group_and_a_user_that_staff_change_and_delete(
    staff: Client, user: User, capsys: pytest.CaptureFixture[str]
) -> None:
    may = Permission.objects.get(codename="view_relayer")
    written = written_by(lambda: staff.post("/admin/auth/group/add/", {"name": "on call", "permissions": may.pk}))
    changes = created(name="on call", permissions=["relayers.view_relayer"])
    assert written == [entry(STAFF, "created", "group", "on call", changes)]

    page, group = f"/admin/auth/user/{user.pk}", Group.objects.get(name="on call")
    form = {"username": "alice", "is_active": "on", "is_staff": "on", "groups": group.pk, "user_permissions": may.pk}
    form |= {"date_joined_0": "2026-01-01", "date_joined_1": "12:00:00"}
    written = written_by(lambda: staff.post(f"{page}/change/", form))
    rights: Entry = {"groups": [[], ["on call"]], "user_permissions": [[], ["relayers.view_relayer"]]}
    assert written == [entry(STAFF, "changed", "user", "alice", {"is_staff": [False, True]} | rights)]

    password = {"password1": "another-password-SECRET", "password2": "another-password-SECRET"}
    password |= {"usable_password": "true", "set-password": "1"}
    written = written_by(lambda: staff.post(f"{page}/password/", password))
    assert written == [entry(STAFF, "changed", "user", "alice", {"password": "changed"})]

    written = written_by(lambda: call_command("issue_token", "ci", user="alice"))
    token = str(AccessToken.objects.get())
    assert written == [
        entry(COMMAND, "created", "access token", token, created(name="ci", user="alice", enabled=True))
    ]
    # It goes with its user.
    written = written_by(lambda: staff.post(f"{page}/delete/", {"post": "yes"}))
    assert [(row["action"], row["object_type"], row["object_id"]) for row in written] == [
        ("deleted", "user", "alice"),
        ("deleted", "access token", token),
    ]


def test_a_fleet_file_that_creates_and_changes_every_resource(load: Callable[..., None]) -> None:
    relayer: Entry = RELAYER | {"paused": True}
    written = written_by(lambda: load(signers=[SIGNER], notifications=[HOOK], relayers=[relayer], fee_tokens=[USDC]))
    new_token = created(**USDC, enabled=True, margin_bps=0, max_spread_bps=200)
    assert written == [
        entry(FILE, "created", "signer", "signer-1", NEW_SIGNER),
        entry(FILE, "created", "notification", "hook-1", NEW_HOOK),
        entry(FILE, "created", "relayer", "relayer-1", NEW_RELAYER),
        entry(FILE, "created", "fee token", "USDC on sepolia", new_token),
    ]
    hook, relayer = HOOK | {"signing_key": "another-SECRET"}, RELAYER | {"paused": False, "notification_id": "hook-1"}
    token = USDC | {"sources": [FIXED | {"rate": "3100"}]}
    written = written_by(lambda: load(signers=[SIGNER], notifications=[hook], relayers=[relayer], fee_tokens=[token]))
    changes = {"notification_id": [None, "hook-1"], "paused": [True, False]}
    sources = {"sources": [[FIXED], [FIXED | {"rate": "3100"}]]}
    assert written == [
        entry(FILE, "changed", "notification", "hook-1", {"signing_key": "changed"}),
        entry(FILE, "changed", "relayer", "relayer-1", changes),
        entry(FILE, "changed", "fee token", "USDC on sepolia", sources),
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


def test_a_pause_is_recorded_with_its_reason_and_without_an_actor_all_the_same() -> None:
    relayer = factories.relayer()
    written = written_by(lambda: set_paused(relayer, True, "the vault is being moved"))
    paused = {"paused": [False, True]}
    assert written == [entry(UNKNOWN, "changed", "relayer", "relayer-1", paused, "the vault is being moved")]
    assert AuditEntry.objects.for_row(relayer).get().lines == ["paused: no → yes"]
    assert written_by(lambda: set_paused(relayer, True)) == []
