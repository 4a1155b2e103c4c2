"""Relayers follow their signer to the address of another key, after staff have confirmed it."""

from __future__ import annotations

import re
import threading
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.test import Client
from django.utils import timezone
from django.utils.html import strip_tags
from pytest_django import DjangoCaptureOnCommitCallbacks

from relayer_service.background.tasks import queue
from relayer_service.database.clock import database_now
from relayer_service.models import AuditEntry
from relayers.health import checking
from relayers.health.checking import AccountReading
from relayers.health.probes import ProbeCache
from relayers.models import NO_READINGS, Relayer, RelayerHealth
from relayers.writes import RelayerFollower
from signers import signing
from signers.models import Signer
from tests.api import Api
from tests.concurrency import wait_until, waits_for_a_lock
from tests.contract import bodies
from tests.notifications.admin_pages import staff_who_may, told
from tests.relayer_service.admin.overview_pages import attention
from tests.relayers import factories
from tests.relayers.admin_pages import edit, errors
from tests.relayers.config_files import OTHER_ADDRESS, OTHER_KEY, rows
from tests.relayers.factories import ADDRESS
from tests.relayers.replaced_keys import move_key, replace_meanwhile
from tests.servers import free_port
from tests.signers.backends.vault_server import VaultServer
from tokens.writes import issue

pytestmark = pytest.mark.django_db

READ = AccountReading(nonce=7, balance=100)
MISMATCH = (
    f"The relayer's address is {ADDRESS}, but its signer's is {OTHER_ADDRESS}. "
    "Save the signer to move its relayers to that address."
)
FUNDS_STAY = (
    "Coins stay at the old address, which only the old key can sign for. "
    "The service deletes the old key: send the coins elsewhere first."
)
ASKED = (
    f"This key has another address, {OTHER_ADDRESS}. Saving it moves 1 relayer. {FUNDS_STAY} "
    "Enter the secrets again, as they are not kept, and confirm."
)
BODY = {"name": "R", "network": "sepolia", "network_type": "evm", "signer_id": "signer-1", "paused": False}


@pytest.fixture
def manager(user: User, settings: Any) -> Api:
    settings.EXTENSIONS = ["lifecycle"]
    return Api(issue(name="terraform", user=user, scopes=["manage"])[1])


def replace(client: Client, signer: Signer, confirmed: str | None = None, key: str = OTHER_KEY) -> Any:
    form = {"plain__key": key} | ({} if confirmed is None else {"confirmed_address": confirmed})
    return client.post(f"/admin/signers/signer/{signer.pk}/change/", form, follow=True)


def box(page: Any) -> dict[str, Any]:
    """The check box that confirms an address."""
    (found,) = re.findall('<input[^>]*name="confirmed_address"[^>]*>', page.content.decode())
    attributes = re.sub('class="[^"]*"', "", found)
    return {"value": " ".join(re.findall('value="([^"]*)"', attributes)), "ticked": "checked" in attributes}


def moves(page: Any) -> list[list[str]]:
    """The table of relayers that move, in text; [] if there is none."""
    table = "".join(re.findall('<table class="confirmation">.*?</table>', page.content.decode(), re.S))
    lines = re.findall("<tr>(.*?)</tr>", table, re.S)
    return [[strip_tags(cell) for cell in re.findall("<t[hd].*?</t[hd]>", line, re.S)] for line in lines]


def address_of(signer: Signer) -> str:
    return signing.known_identity(Signer.objects.get(pk=signer.pk))


def check(reading: AccountReading = READ) -> Relayer:
    """Write what a check has read of the one relayer that there is."""
    RelayerHealth.objects.update(due_at=timezone.now() - timedelta(seconds=1))
    (claimed,) = RelayerHealth.objects.select_related("relayer").claim(1, checking.lease_length())
    checking.write([(claimed, reading)])
    return Relayer.objects.get()


# In the admin.


def test_another_key_is_saved_only_after_a_question_that_names_relayers(admin_client: Client) -> None:
    relayer = factories.relayer(balance_text="1234567890123456789")
    factories.relayer(identifier="relayer-2", address="")
    before = rows()
    # What is confirmed is one address and no other.
    for confirmed in (None, ADDRESS):
        page = replace(admin_client, relayer.signer, confirmed)
        assert errors(page) == {"confirmed_address": [ASKED]}
        assert moves(page) == [["Relayer", "Old address", "Balance there"], ["relayer-1", ADDRESS, "1.23456 ETH"]]
        assert 'title="1.234567890123456789 ETH"' in page.content.decode()
        assert box(page) == {"value": OTHER_ADDRESS, "ticked": False}
        assert OTHER_KEY.removeprefix("0x") not in page.content.decode()
    page = replace(admin_client, relayer.signer, confirmed=OTHER_ADDRESS, key="")
    assert errors(page) == {"confirmed_address": ["Nothing would change. Enter the new secrets again."]}
    assert rows() == before


def test_relayers_follow_a_key_that_is_confirmed_and_are_checked_at_once(
    admin_client: Client, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    read = {"nonce": 7, "balance_text": "5", "balance_at": timezone.now()}
    seen = read | {"balance_is_low": True, "low_since": timezone.now(), "balance_hours": [[1, "5"]]}
    seen |= {"outflow_days": [[0, "1"]], "runway_is_short": True}
    later = timezone.now() + timedelta(minutes=2)
    relayer = factories.relayer(due_at=later, lease=uuid.uuid4(), **seen)
    under_way = RelayerHealth.objects.get()
    other = factories.relayer(identifier="relayer-2", signer=factories.signer("signer-2"))
    with django_capture_on_commit_callbacks(execute=True):
        page = replace(admin_client, relayer.signer, confirmed=OTHER_ADDRESS)
    assert f"signer-1: moved to {OTHER_ADDRESS}: 1 relayer" in told(page)
    relayer.refresh_from_db()
    assert (relayer.address, address_of(relayer.signer)) == (OTHER_ADDRESS, OTHER_ADDRESS)
    assert {name: getattr(relayer.health, name) for name in seen} == NO_READINGS
    assert relayer.health.due_at
    assert relayer.health.due_at <= database_now()
    assert not under_way.release(later, nonce=5)
    assert [task.name for task in queue.pending()] == ["check_relayers_now"]
    other.refresh_from_db()
    assert other.address == ADDRESS
    entry = AuditEntry.objects.get(object_type="relayer")
    assert entry.changes == {"address": [ADDRESS, OTHER_ADDRESS], "balance_is_low": [True, False]}
    assert (entry.who, entry.reason) == ("User admin", "Follows the signer signer-1.")


def test_of_many_relayers_the_first_ten_are_named_to_those_who_may_view_them(
    client: Client, admin_client: Client
) -> None:
    relayers = [factories.relayer(identifier=f"relayer-{number:02}") for number in range(12)]
    staff = staff_who_may(client, "view_signer", "change_signer")
    page = replace(staff, relayers[0].signer)
    (asked,) = errors(page)["confirmed_address"]
    assert ("Saving it moves 12 relayers. " in asked, moves(page)) == (True, [])
    named = [[f"relayer-{number:02}", ADDRESS, "unknown"] for number in range(10)]
    page = replace(admin_client, relayers[0].signer)
    assert moves(page) == [["Relayer", "Old address", "Balance there"], *named, ["and 2 more"]]


def test_nothing_is_asked_about_a_signer_without_relayers_nor_about_the_same_key(admin_client: Client) -> None:
    replace(admin_client, factories.signer("signer-2"))
    assert address_of(Signer.objects.get()) == OTHER_ADDRESS
    signer = factories.relayer().signer
    replace(admin_client, signer, key=factories.KEY.removeprefix("0x"))
    assert Signer.objects.get(pk=signer.pk).full_config() == {"key": factories.KEY.removeprefix("0x")}


def test_while_a_new_address_cannot_be_read_relayers_have_none(admin_client: Client) -> None:
    with VaultServer() as server:
        relayer = factories.relayer(signer=vault_signer(server))
    config = {"key_name": "main", "role_id": "role", "secret_id": "secret"}
    config["address"] = f"http://127.0.0.1:{free_port()}"
    elsewhere = {f"provider_c__{name}": value for name, value in config.items()}
    path = f"/admin/signers/signer/{relayer.signer.pk}/change/"
    page = admin_client.post(path, elsewhere)
    (text,) = errors(page)["confirmed_address"]
    assert text.startswith("The address of this key cannot be read: Vault ")
    assert "Saving it leaves 1 relayer without an address." in text
    assert moves(page)[1:] == [["relayer-1", ADDRESS, "unknown"]]
    admin_client.post(path, elsewhere | {"confirmed_address": "unknown"})
    assert Relayer.objects.get().address == ""


# Over REST, and at the same moment.


def test_a_relayer_is_not_created_with_the_address_of_a_replaced_key(
    manager: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer = factories.signer()
    replace_meanwhile(signer, monkeypatch)
    answer = manager.post("/api/v1/relayers", BODY)
    fault = bodies.bad_request("signer_id: the signer was changed concurrently: try again")
    assert (answer.status, bodies.uncoded(answer.body)) == (400, fault)
    assert not Relayer.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_relayer_that_is_created_while_a_key_is_replaced_follows_it(
    manager: Api, admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer = factories.signer()
    replaced = threading.Event()

    def work() -> None:
        replace(admin_client, signer, confirmed=OTHER_ADDRESS)
        replaced.set()
        connections.close_all()

    writer = threading.Thread(target=work)

    def begin(*args: Any) -> None:
        """Replace the key while the relayer is inserted and not committed, until that waits for the lock."""
        writer.start()
        wait_until(lambda: replaced.is_set() or waits_for_a_lock())

    monkeypatch.setattr(ProbeCache, "save_errors", begin)
    assert manager.post("/api/v1/relayers", BODY).status == 201
    writer.join()
    assert replaced.is_set()
    assert (Relayer.objects.get().address, address_of(signer)) == (OTHER_ADDRESS, OTHER_ADDRESS)


@pytest.mark.django_db(transaction=True)
def test_a_relayer_pointed_to_a_signer_while_its_key_is_replaced_follows_it(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer = factories.relayer().signer
    relayer = factories.relayer(identifier="relayer-2", signer=factories.signer("signer-2"))
    saved = threading.Event()

    def work() -> None:
        edit(admin_client, relayer, signer=signer.pk)
        saved.set()
        connections.close_all()

    writer = threading.Thread(target=work)
    follow = RelayerFollower.follow

    def begin(*args: Any) -> int:
        """Point the relayer here while the new key is written and not committed, until that waits for the lock."""
        moved = follow(*args)
        writer.start()
        wait_until(lambda: saved.is_set() or waits_for_a_lock())
        return moved

    monkeypatch.setattr(RelayerFollower, "follow", begin)
    assert replace(admin_client, signer, confirmed=OTHER_ADDRESS).status_code == 200
    writer.join()
    assert saved.is_set()
    assert [each.address for each in signer.relayers.all()] == [OTHER_ADDRESS, OTHER_ADDRESS]


# Those that were left behind.


def test_a_relayer_with_another_address_than_its_signer_is_disabled(admin_client: Client) -> None:
    relayer = factories.relayer(name="Treasury")
    check()
    move_key(relayer.signer)
    for _ in range(3):
        found = check().health
        assert (found.system_disabled, found.disabled_reason_type) == (True, "NonceSyncFailed")
        assert found.disabled_reason_details == MISMATCH
    cause = "sepolia: address differs from the signer's 1 relayer Treasury (relayer-1)"
    assert any(line.startswith(f"{cause} : {MISMATCH}") for line in attention(admin_client))
    (asked,) = errors(replace(admin_client, relayer.signer, key=""))["confirmed_address"]
    assert asked == ASKED.partition(" Enter")[0]
    replace(admin_client, relayer.signer, confirmed=OTHER_ADDRESS, key="")
    assert Relayer.objects.get().address == OTHER_ADDRESS
    assert [check().health.system_disabled for _ in range(3)][-1] is False


def vault_signer(server: VaultServer) -> Signer:
    server.secrets["/v1/secret/data/main"] = {"value": factories.KEY}
    server.namespace = None
    signer = Signer(identifier="vault", type="provider_c")
    config = {"address": server.url, "key_name": "main", "role_id": server.role_id, "secret_id": server.secret_id}
    signer.set_config(config)
    signer.save()
    return signer


def test_a_key_that_was_replaced_in_vault_shows_when_verified_and_is_taken_over(admin_client: Client) -> None:
    with VaultServer() as vault:
        signer = vault_signer(vault)
        relayer = factories.relayer(signer=signer)
        signing.verify(signer)
        vault.secrets["/v1/secret/data/main"] = {"value": OTHER_KEY}
        asked = len(vault.asked)
        assert not check().health.system_disabled
        # A check calls no other server for a key.
        assert len(vault.asked) == asked
        signing.verify(Signer.objects.get())
        assert check().health.disabled_reason_details == MISMATCH
        edit(admin_client, relayer, name="Another name")
    assert Relayer.objects.get().address == OTHER_ADDRESS
