"""After a restore of the service's database, nothing is handed over until staff acknowledge it."""

from __future__ import annotations

import signal
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin import site
from django.core.management import CommandError, call_command
from django.test import RequestFactory
from django.utils import timezone

from relayer_client import Client
from relayer_client.outbox.admin import RelayerGenerationAdmin
from relayer_client.outbox.management.commands import send_outbox
from relayer_client.outbox.models import OutboxTransaction, RelayerGeneration
from relayer_client.outbox.restores import Restores
from relayer_client.outbox.sending import run_once
from tests.client.outbox.fake_service import FakeService, relayer_of
from tests.client.outbox.rows import add, make_due, statuses
from tests.client.scripted_server import DROP, refused

# The service does not install the outbox: its admin has no such pages.
site.unregister([OutboxTransaction, RelayerGeneration])


@pytest.fixture
def acknowledge(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Do what staff do in the admin."""
    page = RelayerGenerationAdmin(RelayerGeneration, site)
    monkeypatch.setattr(page, "log_change", lambda *_: None)
    return lambda: page.acknowledge(RequestFactory().post("/"), RelayerGeneration.objects.exclude(evidence=""))


@pytest.fixture
def restored(outbox: None, fake: FakeService, client: Client) -> None:
    """A service that had accepted `done` and `lost`, whose database is restored from before, with an idle relayer."""
    fake.generations = {"sender": 11, "idle": 3}
    add("done")
    add("idle", relayer="idle")
    run_once(client)
    fake.loss = lambda request: DROP if b'"7"' in request.body else None
    add("lost", relayer="idle", value=7)
    run_once(client)
    fake.loss = lambda request: None
    lost = OutboxTransaction.objects.get(key="lost")
    del fake.accepted[str(lost.idempotency_key)]
    fake.generations["sender"] = 5
    make_due()


def test_nothing_is_handed_over_after_a_restore(
    restored: None, fake: FakeService, client: Client, acknowledge: Any, caplog: Any
) -> None:
    before = len(fake.posts)
    add("new", relayer="idle")
    fake.finish("mined")
    # The generation of the idle relayer is as before: the other one is read first.
    assert "sender: the generation fell from 11 to 5" in run_once(client).hold
    assert [record.levelname for record in caplog.records].count("CRITICAL") == 1
    make_due()
    run_once(client)
    assert len(fake.posts) == before
    assert statuses() == {"done": "mined", "idle": "mined", "lost": "queued", "new": "queued"}
    assert "Staff must acknowledge" in OutboxTransaction.objects.get(key="new").status_reason
    acknowledge()
    assert run_once(client).hold == ""
    assert len(fake.posts) == before + 1
    assert statuses() == {"done": "mined", "idle": "mined", "lost": "uncertain", "new": "pending"}
    make_due()
    run_once(client)
    assert RelayerGeneration.objects.get(pk="sender").generation == 5


def test_a_restore_is_noticed_though_others_have_raised_the_generation(
    restored: None, fake: FakeService, client: Client
) -> None:
    before = len(fake.posts)
    fake.generations["sender"] = 12
    # What was accepted lately cannot be read, then it is missing.
    fake.refusal = lambda request: refused(403, "token_limited") if relayer_of(request) == "sender" else None
    run_once(client)
    fake.refusal = lambda request: None
    del fake.accepted[str(OutboxTransaction.objects.get(key="done").idempotency_key)]
    make_due()
    assert "sender: a transaction that was accepted lately is missing" in run_once(client).hold
    assert len(fake.posts) == before


def test_rows_that_an_acknowledged_restore_has_lost_are_no_evidence(
    restored: None, fake: FakeService, client: Client, acknowledge: Any
) -> None:
    run_once(client)
    acknowledge()
    fake.accepted.clear()
    make_due()
    assert run_once(client).hold == ""
    assert {*statuses().values()} == {"uncertain"}
    add("new")
    run_once(client)
    fake.accepted.clear()
    make_due()
    assert "sender: an accepted transaction is missing" in run_once(client).hold


def test_rows_in_doubt_are_uncertain_whatever_the_clock_of_their_sender(
    restored: None, client: Client, acknowledge: Any
) -> None:
    run_once(client)
    later = timezone.now() + timedelta(hours=1)
    OutboxTransaction.objects.filter(key="lost").update(unanswered_since=later)
    acknowledge()
    run_once(client)
    assert statuses()["lost"] == "uncertain"


def test_a_command_reports_a_restore(restored: None, fake: FakeService, settings: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(send_outbox, "close_old_connections", lambda: None)
    settings.RELAYER_CLIENT = {"URL": fake.url, "TOKEN": "a-token"}
    with pytest.raises(CommandError, match="seems to be restored"):
        call_command(send_outbox.Command(), once=True)


def test_a_lost_transaction_is_evidence_of_a_restore(outbox: None, fake: FakeService, client: Client) -> None:
    add("payout-1")
    run_once(client)
    fake.accepted.clear()
    add("payout-2")
    make_due()
    run_once(client)
    add("payout-3")
    assert "sender: an accepted transaction is missing" in run_once(client).hold
    assert statuses()["payout-3"] == "queued"


def test_what_another_sender_has_read_meanwhile_is_no_evidence(outbox: None) -> None:
    RelayerGeneration.objects.create(relayer="sender", generation=9)
    slow, fast = Restores("default"), Restores("default")
    for run, generation in ((fast, 11), (slow, 10)):
        run._read("sender", generation)
        run.save()
    assert (Restores("default").hold, RelayerGeneration.objects.get().generation) == ("", 11)


def test_what_staff_have_acknowledged_is_not_reported_again(restored: None, client: Client, acknowledge: Any) -> None:
    run_once(client)
    slow = Restores("default")
    acknowledge()
    for relayer, generation in (("sender", 5), ("idle", 2)):
        slow._read(relayer, generation)
    slow.save()
    assert Restores("default").hold == ""
