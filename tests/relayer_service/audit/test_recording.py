"""An entry is written with its change: both are there, or neither."""

from contextvars import copy_context
from functools import partial
from typing import Any

import pytest
from django.db import OperationalError, transaction
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from notifications.models import Notification
from relayer_service.audit import actors
from relayer_service.audit.actors import Actor, ActorKind, acting_as
from relayer_service.audit.recording import changed, record
from relayer_service.background import tasks
from relayer_service.models import AuditEntry
from relayers.models import Relayer
from signers.models import Signer
from tests.api import Api
from tests.concurrency import in_threads
from tests.relayers import admin_pages, factories
from tests.relayers.factories import set_paused

pytestmark = pytest.mark.both_engines

PATH = "/api/v1/notifications/hook-1"


@pytest.fixture
def broken_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that refuses entries."""

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("the disk is full")

    monkeypatch.setattr(AuditEntry.objects, "bulk_create", refuse)
    for name in ("insert", "insert_both"):
        monkeypatch.setattr(f"relayer_service.audit.recording.{name}", refuse)


@pytest.mark.django_db(transaction=True)
def test_a_change_that_cannot_be_recorded_is_not_made(
    api: Api, admin_client: Client, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    factories.notification()
    relayer = factories.relayer()
    # An entry outside of a transaction is refused.
    with pytest.raises(transaction.TransactionManagementError):
        record([changed(relayer, {"paused": False}, {"paused": True})])
    assert not AuditEntry.objects.exists()
    request.getfixturevalue("broken_log")
    admin_client.raise_request_exception = False
    assert api.post("/api/v1/signers", {"id": "new", "type": "plain", "config": {"key": "k"}}).status == 503
    assert api.patch(PATH, {"url": "https://other.example.com/"}).status == 503
    assert admin_client.post(f"{admin_pages.LIST}{relayer.pk}/delete/", {"post": "yes"}).status_code == 503
    with pytest.raises(OperationalError):
        set_paused(relayer, True)
    assert not Signer.objects.filter(identifier="new").exists()
    assert Notification.objects.get().url == "https://hooks.example.com/relayers"
    assert Relayer.objects.values("paused").get() == {"paused": False}


@pytest.mark.django_db(transaction=True)
def test_of_two_who_change_one_field_each_entry_begins_where_the_other_ended(api: Api) -> None:
    factories.notification()
    urls = [f"https://{name}.example.com" for name in ("one", "two")]
    in_threads(*[partial(api.patch, PATH, {"url": url}) for url in urls])
    first, second = [entry.changes["url"] for entry in AuditEntry.objects.filter(action="changed").order_by("id")]
    assert first[0] == "https://hooks.example.com/***"
    assert second == [first[1], Notification.objects.get().url]


@pytest.mark.django_db
def test_many_entries_take_one_statement_a_batch(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    relayer = factories.relayer()
    entries = [changed(relayer, {"paused": False}, {"paused": True}, "an outage") for _ in range(50)]
    with django_assert_num_queries(1), acting_as(ActorKind.COMMAND, "a command"):
        record(entries)
    assert AuditEntry.objects.for_row(relayer).filter(actor="a command", reason="an outage").count() == 50


def test_an_actor_acts_within_the_request_and_no_longer() -> None:
    outer = Actor(ActorKind.WORKER, "check_relayers", request_id="task-1")
    token = actors.finder.set(lambda: outer)
    with acting_as(ActorKind.HEALTH_CHECK, "health check"):
        assert actors.current() == Actor(ActorKind.HEALTH_CHECK, "health check", request_id="task-1")
    assert actors.current() == outer
    actors.finder.reset(token)
    assert actors.current() == Actor(ActorKind.UNKNOWN)


@pytest.mark.django_db(transaction=True)
def test_what_a_task_changes_is_the_workers() -> None:
    relayer = factories.relayer()
    task = tasks.heartbeat.s()

    def run() -> None:
        tasks.begin(task)
        set_paused(relayer, True)
        tasks.end(task, None, None)
        set_paused(relayer, False)

    copy_context().run(run)
    entries = AuditEntry.objects.order_by("id").values("actor_kind", "actor", "request_id")
    assert list(entries) == [
        {"actor_kind": "worker", "actor": "heartbeat", "request_id": f"task-{task.id}"},
        {"actor_kind": "unknown", "actor": "", "request_id": ""},
    ]
