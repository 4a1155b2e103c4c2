"""Writes of relayers: the rules that hold on every way in, and what is saved, recorded and emitted."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, DjangoCaptureOnCommitCallbacks

from notifications.models import Delivery
from relayer_service.background.tasks import queue
from relayer_service.database.clock import database_now
from relayer_service.models import AuditEntry
from relayers.health.probes import ProbeCache
from relayers.models import Relayer, RelayerHealth
from relayers.writes import RelayerWrite
from signers.models import Signer
from tests.relayers import factories
from tests.relayers.config_files import OTHER_ADDRESS, OTHER_KEY
from tests.relayers.factories import ADDRESS
from tests.relayers.replaced_keys import move_key
from tests.signers.examples import CONFIGS

pytestmark = [pytest.mark.django_db, pytest.mark.both_engines]

SEPOLIA = 11155111
NODE = {"url": "https://node.example.com/key", "weight": 100}
UNREACHABLE = "The signer cannot provide its address: It is down."
UNKNOWN_NETWORK = {"network": ["unknown network: custom RPC URLs and a chain ID are required"]}
CLOSED = "holesky was shut down in 2025: use hoodi, or sepolia"


class FixedAnswers(ProbeCache):
    """Stubbed answers of signers and nodes."""

    def __init__(self, address: tuple[str, str] = (ADDRESS, ""), chain_id: int | str = SEPOLIA) -> None:
        super().__init__()
        self.found, self.chain_id = address, chain_id
        self.asked: list[str] = []

    def address(self, signer: Signer) -> tuple[str, str]:
        self.asked.append(signer.identifier)
        return self.found

    def chain_ids(self, urls: Any) -> list[int | str]:
        self.asked += urls
        return [self.chain_id for _ in urls]


def stored_signer(identifier: str, signer_type: str, verified_identity: str = "") -> Signer:
    signer = Signer(identifier=identifier, type=signer_type)
    signer.set_config(CONFIGS[signer_type])
    signer.verified_identity = verified_identity
    signer.save()
    return signer


def new(answers: ProbeCache | None = None, **values: Any) -> RelayerWrite:
    """Return the write of a new relayer, which the rules accept."""
    row = {"id": "relayer-1", "name": "Relayer 1", "network": "sepolia", "network_type": "evm"}
    write = RelayerWrite.of_new_row(row)
    write.answers = answers or FixedAnswers()
    write.change(row | {"signer_id": factories.signer()} | values)
    return write


def faults(**values: Any) -> dict[str, list[str]]:
    """Return the faults of a new relayer."""
    answers = values.pop("answers", None)
    with pytest.raises(ValidationError) as raised:
        new(answers, **values)
    return raised.value.message_dict


# Rules.


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"network": "my-chain"}, UNKNOWN_NETWORK),
        ({"network": "my-chain", "chain_id": 5}, UNKNOWN_NETWORK),
        ({"network": "my-chain", "custom_rpc_urls": [NODE]}, UNKNOWN_NETWORK),
        ({"chain_id": 5}, {"chain_id": [f"must be {SEPOLIA}, the chain ID of sepolia"]}),
        ({"network": "holesky"}, {"network": [CLOSED]}),
        ({"address": OTHER_ADDRESS}, {"address": [f"must be {ADDRESS}, the signer's address"]}),
    ],
)
def test_a_relayer_that_breaks_a_rule_is_refused(values: dict[str, Any], expected: dict[str, list[str]]) -> None:
    assert faults(**values) == expected


def test_a_signer_of_another_curve_is_refused_and_not_called() -> None:
    answers = FixedAnswers()
    (fault,) = faults(signer_id=stored_signer("transit", "provider_c_transit"), answers=answers)["signer_id"]
    assert fault.endswith("is an Ed25519 signer: it signs messages only and cannot be used by an evm relayer.")
    assert answers.asked == []


def test_a_node_of_another_chain_is_refused_with_its_path() -> None:
    urls = [NODE, NODE | {"url": "https://other.example.com"}]
    text = f"this node is on chain 5, not on {SEPOLIA}"
    expected = {"custom_rpc_urls[0].url": [text], "custom_rpc_urls[1].url": [text]}
    assert faults(custom_rpc_urls=urls, answers=FixedAnswers(chain_id=5)) == expected


def test_what_could_not_be_checked_is_a_warning_with_its_path() -> None:
    answers = FixedAnswers(("", UNREACHABLE), "connection failed")
    write = new(answers, network="holesky", chain_id=17000, custom_rpc_urls=[NODE])
    assert write.warnings == [
        ("address", UNREACHABLE),
        ("network", CLOSED),
        ("custom_rpc_urls[0].url", "the chain ID of this node was not checked: connection failed"),
    ]


def test_a_relayer_whose_network_is_no_longer_known_can_only_be_paused() -> None:
    relayer = factories.relayer(network="moon")
    RelayerWrite(relayer).change({"paused": True})
    with pytest.raises(ValidationError):
        RelayerWrite(relayer).change({"name": "Another"})


# The address.


def test_a_new_relayer_has_the_address_of_its_signer() -> None:
    for given, found, address in [
        ({}, (ADDRESS, ""), ADDRESS),
        ({"address": ADDRESS.lower()}, (ADDRESS, ""), ADDRESS),
        ({}, ("", UNREACHABLE), ""),
        ({"address": OTHER_ADDRESS.lower()}, ("", UNREACHABLE), OTHER_ADDRESS),
    ]:
        assert new(FixedAnswers(found), **given).row.address == address


LOCAL, REMOTE, MOVED = "plain", "provider_c", "provider_c verified elsewhere"
WORKS, FAILS = (OTHER_ADDRESS, ""), ("", UNREACHABLE)


@pytest.mark.parametrize(
    ("kind", "given", "found", "address", "is_asked"),
    [
        (REMOTE, {}, WORKS, ADDRESS, False),
        (REMOTE, {"address": None}, WORKS, ADDRESS, False),
        (REMOTE, {"address": ADDRESS.lower()}, WORKS, ADDRESS, False),
        (REMOTE, {"address": ""}, WORKS, OTHER_ADDRESS, True),
        (REMOTE, {"address": ""}, FAILS, "", True),
        (REMOTE, {"address": OTHER_ADDRESS}, WORKS, OTHER_ADDRESS, True),
        (MOVED, {}, WORKS, OTHER_ADDRESS, True),
        (MOVED, {"address": None}, WORKS, OTHER_ADDRESS, True),
        (LOCAL, {}, WORKS, OTHER_ADDRESS, True),
        (LOCAL, {}, FAILS, ADDRESS, True),
        (LOCAL, {"address": None}, FAILS, "", True),
    ],
)
def test_a_stored_address_stays_while_it_is_known_to_be_the_signers(
    kind: str, given: Any, found: tuple[str, str], address: str, is_asked: bool
) -> None:
    signer = stored_signer("signer-2", kind.split()[0], OTHER_ADDRESS if kind == MOVED else "")
    relayer, answers = factories.relayer(signer=signer), FixedAnswers(found)
    write = RelayerWrite(relayer)
    write.answers = answers
    write.set(given)
    write.check_account()
    assert (relayer.address, answers.asked) == (address, ["signer-2"] if is_asked else [])
    assert write.fields == ([] if address == ADDRESS else ["address"])


@pytest.mark.parametrize("found", [WORKS, FAILS])
def test_another_signer_brings_its_own_address(found: tuple[str, str]) -> None:
    relayer = factories.relayer(signer=stored_signer("signer-2", "provider_c"))
    write = RelayerWrite(relayer)
    write.answers = FixedAnswers(found)
    write.set({"signer_id": factories.signer("signer-3", OTHER_KEY)})
    write.check_account()
    assert (relayer.address, write.fields) == (found[0], ["address", "signer_id"])


@pytest.mark.parametrize(("key", "error"), [(factories.KEY, ""), ("not a key", "The key must be")])
def test_a_saved_relayer_keeps_the_error_of_its_signer(key: str, error: str) -> None:
    factories.signer(key=key)
    Signer.objects.update(last_error="It is down.")
    write = new(ProbeCache())
    assert Signer.objects.get().last_error == "It is down."
    write.save()
    assert Signer.objects.get().last_error.startswith(error)
    assert bool(Signer.objects.get().last_error) == bool(error)


# Locks.


@pytest.mark.parametrize("field", ["signer_id", "notification_id", "key"])
def test_what_was_deleted_or_has_another_key_meanwhile_is_refused(field: str) -> None:
    rows: dict[str, Any] = {"signer_id": factories.signer("signer-2"), "notification_id": factories.notification()}
    write = new(**rows)
    if field == "key":
        move_key(Signer.objects.get(identifier="signer-2"))
        expected = {"signer_id": ["the signer was changed concurrently: try again"]}
    else:
        type(rows[field])._base_manager.filter(identifier=rows[field].identifier).delete()
        expected = {field: ["object with this ID does not exist"]}
    with pytest.raises(ValidationError) as raised:
        write.lock()
    assert raised.value.message_dict == expected


def test_a_change_that_refers_to_nothing_new_locks_nothing(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    write = RelayerWrite(factories.relayer(notification=factories.notification()))
    write.change({"name": "Another"})
    with django_assert_num_queries(0):
        write.lock()


# What is saved.


def test_a_change_takes_the_lease_of_a_running_check_and_queues_another(
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    later = timezone.now() + timedelta(minutes=2)
    relayer = factories.relayer(due_at=later, lease=uuid.uuid4(), nonce=5)
    under_way = RelayerHealth.objects.get()
    with django_capture_on_commit_callbacks(execute=True):
        write = RelayerWrite(relayer)
        write.change({"policies": {"min_balance": 5}})
        write.save()
    assert (write.fields, write.columns) == (["policies.min_balance"], {"policies"})
    stored = RelayerHealth.objects.get()
    assert stored.due_at
    assert (stored.due_at <= database_now(), stored.lease, stored.nonce) == (True, None, 5)
    assert [task.name for task in queue.pending()] == ["check_relayers_now"]
    assert not under_way.release(later, nonce=6)


def test_what_stays_the_same_and_a_pause_do_not_interrupt_a_check(
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    lease = uuid.uuid4()
    hook = factories.notification()
    relayer = factories.relayer(rpc_urls=[NODE], policies={"min_balance": 5}, lease=lease, notification=hook)
    before = (Relayer.objects.values().get(), RelayerHealth.objects.values().get())
    with django_capture_on_commit_callbacks(execute=True):
        write = RelayerWrite(relayer)
        write.answers = FixedAnswers()
        same = {"name": relayer.name, "custom_rpc_urls": [NODE], "policies": {"min_balance": 5}, "paused": False}
        write.change(same)
        write.save()
    after = (Relayer.objects.values().get(), RelayerHealth.objects.values().get())
    assert (write.state, after) == ("unchanged", before)
    assert (AuditEntry.objects.count(), queue.pending()) == (0, [])

    write = RelayerWrite(relayer)
    write.change({"paused": True})
    write.save()
    stored = Relayer.objects.get()
    assert (write.fields, stored.paused, stored.health.lease) == (["paused"], True, lease)
    assert [delivery.event for delivery in Delivery.objects.all()] == ["relayer.paused"]
    assert [entry.changes for entry in AuditEntry.objects.all()] == [{"paused": [False, True]}]


@pytest.mark.parametrize("values", [{"network": "hoodi"}, {"network": "my-chain", "chain_id": 5}])
def test_what_was_read_of_another_account_is_forgotten(values: dict[str, Any]) -> None:
    read = {"nonce": 5, "balance_text": "12", "balance_at": timezone.now(), "balance_is_low": True}
    write = RelayerWrite(factories.relayer(rpc_urls=[NODE], **read))
    write.answers = FixedAnswers(chain_id=write.row.chain_id or 5)
    write.set(values)
    write.check_account()
    write.save()
    forgotten = {"nonce": None, "balance_text": "", "balance_at": None, "balance_is_low": False}
    assert RelayerHealth.objects.values(*read).get() == forgotten


@pytest.mark.parametrize(("paused", "events"), [(True, ["relayer.paused"]), (False, [])])
def test_a_new_relayer_is_recorded_and_emits_its_pause(paused: bool, events: list[str]) -> None:
    new(notification_id=factories.notification(), paused=paused).save()
    assert (Relayer.objects.get().paused, RelayerHealth.objects.get().network) == (paused, "sepolia")
    assert [delivery.event for delivery in Delivery.objects.all()] == events
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.changes.get("paused")) == ("created", [None, paused])
