"""What is in flight keeps its account and signer: REST, admin and fleet files refuse changes in the same words."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, connections
from django.db import transaction as database
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from relayer_service.background.tasks import queue
from relayer_service.database.clock import database_now
from relayers import guards
from relayers.models import Relayer
from signers import signing
from signers.models import Signer
from tests.api import Answer, Api
from tests.concurrency import wait_until, waits_for_a_lock
from tests.contract import bodies
from tests.notifications.admin_pages import told
from tests.relayers import factories as relayers
from tests.relayers.admin_pages import edit, errors
from tests.relayers.config_files import OTHER_ADDRESS, OTHER_KEY, SIGNER, SPARSE, faults, load
from tests.relayers.factories import ADDRESS
from tests.transactions import factories
from tokens.writes import issue
from transactions.models import OPEN, ChainWatch, Lane, Status, Transaction
from transactions.repair.guards import LaneGuard

pytestmark = pytest.mark.django_db

REFUSED = (
    "Relayer relayer-1 has an open transaction. Until all are final, its signer, network and address cannot be "
    "changed, and it cannot be deleted."
)
LEASE = uuid.UUID(int=1)
LIST = "/admin/relayers/relayer/"
RELAYER = "/api/v1/relayers/relayer-1"
DELETED = bodies.success("Relayer deleted successfully")


@pytest.fixture
def manager(user: User, settings: Any) -> Api:
    settings.EXTENSIONS = ["lifecycle"]
    return Api(issue(name="terraform", user=user, scopes=["manage"])[1])


@pytest.fixture
def relayer() -> Relayer:
    """A relayer whose lane a worker holds, with a pending transaction."""
    relayer = relayers.relayer()
    factories.transaction(held_lane(relayer))
    return relayer


def held_lane(relayer: Relayer) -> Lane:
    later = timezone.now() + timedelta(hours=1)
    watch = ChainWatch.objects.create(chain_id=relayer.expected_chain_id or 0, nodes_digest="0" * 64)
    return factories.lane(relayer, lease=LEASE, due_at=later, watch=watch)


def finish() -> None:
    Transaction.objects.update(**factories.final("expired"))


def lane_state() -> dict[str, Any]:
    """Return what a change of a relayer can change in its lane."""
    lane = Lane.objects.get()
    return {
        "relayer": lane.relayer and lane.relayer.identifier,
        "has watch": lane.watch is not None,
        "is leased": lane.lease is not None,
        "is due": lane.due_at <= database_now(),
    }


LEASED = {"relayer": "relayer-1", "has watch": True, "is leased": True, "is due": False}
RELEASED = {"relayer": "relayer-1", "has watch": True, "is leased": False, "is due": True}
UNLINKED = RELEASED | {"relayer": None}


# Deleting.


@pytest.mark.parametrize("status", OPEN)
def test_a_relayer_with_an_open_transaction_is_not_deleted(manager: Api, relayer: Relayer, status: Status) -> None:
    row = Transaction.objects.get()
    if status != Status.PENDING:
        row.nonce = 0
        row.mined_attempt = factories.attempt(row)
    row.status = status
    row.save()
    answer = manager("DELETE", RELAYER)
    assert (answer.status, answer.body) == (409, bodies.failure(REFUSED))
    assert lane_state() == LEASED


def test_a_refusal_counts_the_open_transactions() -> None:
    relayer = relayers.relayer()
    lane = factories.lane(relayer)
    for number in range(3):
        status = Status.PENDING if number else Status.EXPIRED
        factories.transaction(lane, identifier=f"tx-{number}", status=status)
    assert LaneGuard().refusals([relayer.pk]) == {
        relayer.pk: "Relayer relayer-1 has 2 open transactions. Until all are final, its signer, network and address "
        "cannot be changed, and it cannot be deleted."
    }


def test_a_relayer_with_final_transactions_is_deleted_and_they_stay(manager: Api, relayer: Relayer) -> None:
    finish()
    answer = manager("DELETE", RELAYER)
    assert (answer.status, answer.body) == (200, DELETED)
    assert lane_state() == UNLINKED | {"has watch": False}
    assert Transaction.objects.get().relayer_id == relayer.pk


def test_the_page_of_a_relayer_says_why_it_is_not_deleted(admin_client: Client, relayer: Relayer) -> None:
    page = admin_client.post(f"{LIST}{relayer.pk}/delete/", {"post": "yes"})
    assert page.context["protected"] == [REFUSED]
    assert Relayer.objects.exists()
    finish()
    admin_client.post(f"{LIST}{relayer.pk}/delete/", {"post": "yes"})
    assert not Relayer.objects.exists()
    assert lane_state() == UNLINKED | {"has watch": False}


def test_the_list_of_relayers_says_why_one_is_not_deleted(
    admin_client: Client, relayer: Relayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = {"action": "delete_selected", "_selected_action": [relayer.pk], "post": "yes"}
    assert admin_client.post(LIST, chosen).context["protected"] == [REFUSED]
    refusals = guards.refusals
    # The page that asks was made before the transaction was accepted.
    answers = [dict[int, str]()]
    monkeypatch.setattr(guards, "refusals", lambda keys: answers.pop() if answers else refusals(keys))
    assert told(admin_client.post(LIST, chosen, follow=True))[0] == f"Not deleted: {REFUSED}"
    assert Relayer.objects.exists()


# Changing the account or the signer.


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("network", {"network": "mainnet"}),
        ("chain_id", {"chain_id": 11155111}),
        ("signer", {"signer": "other"}),
    ],
)
def test_the_admin_keeps_account_and_signer(
    admin_client: Client, relayer: Relayer, field: str, changes: dict[str, Any]
) -> None:
    if "signer" in changes:
        changes = {"signer": relayers.signer("signer-2", OTHER_KEY).pk, "address": ""}
    assert errors(edit(admin_client, relayer, **changes)) == {field: [REFUSED]}
    assert lane_state() == LEASED
    finish()
    edit(admin_client, relayer, **changes)
    # A relayer without open rows leaves its lane, and the next transaction goes through that of its new account.
    assert lane_state()["relayer"] is None


def test_rest_keeps_the_signer(manager: Api, relayer: Relayer) -> None:
    relayers.signer("signer-2", OTHER_KEY)
    answer = manager("PATCH", RELAYER, {"signer_id": "signer-2", "name": "Another name"})
    assert (answer.status, bodies.uncoded(answer.body)) == (400, bodies.bad_request(f"signer_id: {REFUSED}"))
    assert (Relayer.objects.get().name, lane_state()) == ("Relayer 1", LEASED)
    finish()
    assert manager("PATCH", RELAYER, {"signer_id": "signer-2"}).status == 200
    assert (Relayer.objects.get().address, lane_state()) == (OTHER_ADDRESS, UNLINKED)


def test_the_admin_keeps_the_key_of_a_signer(admin_client: Client, relayer: Relayer) -> None:
    path = f"/admin/signers/signer/{relayer.signer.pk}/change/"
    form = {"plain__key": OTHER_KEY, "confirmed_address": OTHER_ADDRESS}
    assert errors(admin_client.post(path, form)) == {"__all__": [REFUSED]}
    assert signing.known_identity(Signer.objects.get()) == ADDRESS
    # The same key can be saved again.
    admin_client.post(path, {"plain__key": relayers.KEY.removeprefix("0x")})
    assert Signer.objects.get().full_config() == {"key": relayers.KEY.removeprefix("0x")}
    assert lane_state() == LEASED
    finish()
    admin_client.post(path, form)
    assert (Relayer.objects.get().address, lane_state()) == (OTHER_ADDRESS, UNLINKED)


OTHER_SIGNER = {"id": "signer-2", "type": "plain", "config": {"key": OTHER_KEY}}
REPLACED = SIGNER | {"config": {"key": OTHER_KEY}}


@pytest.mark.parametrize(
    ("document", "field", "expected"),
    [
        (
            {"signers": [SIGNER], "relayers": [SPARSE | {"network": "mainnet"}]},
            "relayers[0].network",
            (ADDRESS, UNLINKED | {"has watch": False}),
        ),
        (
            {"signers": [OTHER_SIGNER], "relayers": [SPARSE | {"signer_id": "signer-2"}]},
            "relayers[0].signer_id",
            (OTHER_ADDRESS, UNLINKED),
        ),
        ({"signers": [REPLACED]}, "signers[0]", (OTHER_ADDRESS, UNLINKED)),
        ({"signers": [REPLACED], "relayers": [SPARSE]}, "relayers[0].address", (OTHER_ADDRESS, UNLINKED)),
    ],
)
def test_a_fleet_file_keeps_account_and_signer(
    tmp_path: Path, relayer: Relayer, document: dict[str, Any], field: str, expected: tuple[str, dict[str, Any]]
) -> None:
    assert faults(document, tmp_path) == [f"{field}: {REFUSED}"]
    finish()
    load(document, tmp_path, "--confirm-address-changes")
    assert (Relayer.objects.get().address, lane_state()) == expected


# Other changes.


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"paused": True}, RELEASED),
        ({"policies": {"min_balance": 1}}, RELEASED),
        ({"custom_rpc_urls": [{"url": "http://127.0.0.1:9", "weight": 1}]}, RELEASED | {"has watch": False}),
        ({"private_rpc_urls": [{"url": "http://127.0.0.1:9"}]}, RELEASED),
        ({"private_fallback_blocks": 5}, RELEASED),
        ({"name": "Another name"}, LEASED),
    ],
)
def test_a_change_that_a_turn_depends_on_takes_the_lease_away(
    manager: Api,
    relayer: Relayer,
    body: dict[str, Any],
    expected: dict[str, Any],
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        assert manager("PATCH", RELAYER, body).status == 200
    assert lane_state() == expected
    woken = [task.args for task in queue.pending() if task.name == "wake_lane"]
    assert woken == ([] if expected is LEASED else [(Lane.objects.get().pk,)])


def test_pausing_relayers_of_a_list_takes_their_leases_away(relayer: Relayer) -> None:
    relayers.set_paused(relayer, True)
    assert lane_state() == RELEASED


# Two writers at once.


def accept(lane: Lane) -> None:
    """Add a transaction to a lane that is locked as accepting does."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT id FROM transactions_lane WHERE id = %s FOR KEY SHARE", [lane.pk])
    factories.transaction(lane)


Change = Callable[[Api, Client, Relayer], Any]


def delete(manager: Api, staff: Client, relayer: Relayer) -> Answer:
    return manager("DELETE", RELAYER)


def change_network(manager: Api, staff: Client, relayer: Relayer) -> Any:
    return edit(staff, relayer, network="mainnet")


def change_signer(manager: Api, staff: Client, relayer: Relayer) -> Answer:
    relayers.signer("signer-2", OTHER_KEY)
    return manager("PATCH", RELAYER, {"signer_id": "signer-2"})


def replace_key(manager: Api, staff: Client, relayer: Relayer) -> Any:
    form = {"plain__key": OTHER_KEY, "confirmed_address": OTHER_ADDRESS}
    return staff.post(f"/admin/signers/signer/{relayer.signer.pk}/change/", form)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("change", [delete, change_network, change_signer, replace_key])
def test_a_change_waits_for_a_transaction_that_is_being_accepted(
    manager: Api, admin_client: Client, change: Change
) -> None:
    relayer = relayers.relayer()
    lane = factories.lane(relayer)
    done = threading.Event()

    def work() -> None:
        try:
            change(manager, admin_client, relayer)
        finally:
            done.set()
            connections.close_all()

    writer = threading.Thread(target=work)
    with database.atomic():
        accept(lane)
        writer.start()
        wait_until(lambda: done.is_set() or waits_for_a_lock())
    writer.join()
    found = Relayer.objects.get()
    assert (found.network, found.address, Lane.objects.get().relayer) == ("sepolia", ADDRESS, relayer)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("change", [delete, change_network, change_signer, replace_key])
def test_accepting_waits_for_a_change_and_finds_the_lane_unlinked(
    manager: Api, admin_client: Client, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    relayer = relayers.relayer()
    lane = factories.lane(relayer)
    accepted = threading.Event()
    found: list[int | None] = []

    def work() -> None:
        with database.atomic():
            accept(lane)
            found.append(Lane.objects.get().relayer_id)
            database.set_rollback(True)
        accepted.set()
        connections.close_all()

    writer = threading.Thread(target=work)
    note_change = LaneGuard.note_change

    def begin(*args: Any) -> None:
        """Accept after the check and before the commit, until that waits for the lock."""
        if writer.ident is None:
            writer.start()
            wait_until(lambda: accepted.is_set() or waits_for_a_lock())
        note_change(*args)

    monkeypatch.setattr(LaneGuard, "note_change", begin)
    change(manager, admin_client, relayer)
    writer.join()
    assert found == [None]
