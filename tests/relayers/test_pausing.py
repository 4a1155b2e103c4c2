"""Pausing and resuming many relayers, after a confirmation with a reason."""

from __future__ import annotations

from collections import Counter
from functools import partial
from threading import Thread
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoCaptureOnCommitCallbacks

from notifications.delivery import counts
from notifications.models import Delivery, Notification
from relayer_service.audit.recording import record_same
from relayer_service.background.tasks import queue
from relayer_service.database.clock import database_now
from relayer_service.jobs import running
from relayer_service.models import AuditEntry, Job
from relayer_service.storage.selections import Selection
from relayers import pausing
from relayers.models import Relayer
from relayers.pausing import set_all_paused
from tests.concurrency import in_threads, wait_until, waits_for_a_lock
from tests.notifications.admin_pages import asked, buttons, hidden_fields, told
from tests.relayer_service.jobs import start_job
from tests.relayers import factories
from tests.relayers.admin_pages import LIST, change

# The other button of a relayer's page.
DELIVERIES = "Deliveries of this relayer"

pytestmark = pytest.mark.django_db


def make_relayers(first: int, last: int, notification: Notification | None = None) -> None:
    signer = factories.signer()
    Relayer.objects.bulk_create(
        Relayer(identifier=f"r-{number}", name="R", network="sepolia", signer=signer, notification=notification)
        for number in range(first, last)
    )


def everything() -> Selection:
    return Selection.from_queryset(Relayer.objects.all())


def select(action: str, relayer: Relayer, **fields: str) -> dict[str, Any]:
    return {"action": action, "_selected_action": [relayer.pk], **fields}


def test_a_thousand_are_paused_each_recorded_with_as_many_queries_as_ten() -> None:
    hook = factories.notification()
    counts = []
    for first, last in ((0, 10), (10, 1_010)):
        make_relayers(first, last, hook)
        with CaptureQueriesContext(connection) as queries:
            assert set_all_paused(everything(), True, "Why.") == last - first
        counts.append(len(queries))
    assert counts[0] == counts[1]
    entries = AuditEntry.objects.filter(reason="Why.")
    assert len({*entries.values_list("object_id", flat=True)}) == len(entries) == 1_010
    assert entries.values("object_type", "action", "changes").distinct().get() == {
        "object_type": "relayer",
        "action": "changed",
        "changes": {"paused": [False, True]},
    }
    assert len(set(Delivery.objects.values_list("identifier", flat=True))) == Delivery.objects.count() == 1_010


def test_workers_are_notified_once_for_each_webhook_and_skipped_events_are_counted(
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pausing, "BATCH_SIZE", 2)
    hooks = [factories.notification(name) for name in ("hook-1", "hook-2", "off")]
    Notification.objects.filter(identifier="off").update(enabled=False)
    for number, hook in enumerate(hooks):
        make_relayers(5 * number, 5 * number + 5, hook)
    with django_capture_on_commit_callbacks(execute=True):
        assert set_all_paused(everything(), True) == 15
    assert sorted(task.args for task in queue.pending()) == [(hook.pk,) for hook in hooks[:2]]
    assert (Delivery.objects.count(), counts.skipped_events(hooks[2])) == (10, 5)


@pytest.mark.django_db(transaction=True)
def test_two_concurrent_pauses_emit_one_event_for_each_relayer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pausing, "BATCH_SIZE", 3)
    make_relayers(0, 20, factories.notification())
    counts = in_threads(*[partial(set_all_paused, everything(), True)] * 3)
    assert sum(counts) == 20
    assert not Relayer.objects.filter(paused=False).exists()
    assert Delivery.objects.count() == 20
    assert set(Counter(AuditEntry.objects.values_list("object_id", flat=True)).values()) == {1}


@pytest.mark.parametrize("reached", [0, 5, 20])
def test_a_later_job_wins_where_it_has_not_been_stopped_before(reached: int) -> None:
    make_relayers(0, 20)
    keys = list(everything())
    pause = start_job("pause_relayers", everything())
    resume = start_job("resume_relayers", Selection.from_keys(keys[10:]))
    if reached == 0:
        # It waits, and is stopped after the other one has paused all.
        running.run_job.call_local(pause.pk)
    if reached < 20:
        ended = resume.end(Job.State.STOPPED, database_now())
        Job.objects.filter(pk=resume.pk).update(position=keys[reached + 9] if reached else 0, **ended)
    else:
        running.run_job.call_local(resume.pk)
    running.run_job.call_local(pause.pk)
    paused = Relayer.objects.filter(paused=True).values_list("pk", flat=True)
    assert set(paused) == set(keys) - set(keys[10:][:reached])


@pytest.mark.django_db(transaction=True)
@pytest.mark.postgresql
def test_what_is_being_resumed_is_paused_after_it() -> None:
    make_relayers(0, 1)
    set_all_paused(everything(), True)

    def pause() -> None:
        set_all_paused(everything(), True)
        connection.close()

    pausing_thread = Thread(target=pause)
    with transaction.atomic():
        set_all_paused(everything(), False)
        pausing_thread.start()
        wait_until(waits_for_a_lock)
    pausing_thread.join()
    assert Relayer.objects.get().paused


@pytest.mark.django_db(transaction=True)
def test_a_failure_undoes_its_batch_whole_and_leaves_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pausing, "BATCH_SIZE", 3)
    make_relayers(0, 6, factories.notification())
    calls: list[Any] = []

    def fail_at_the_second(*args: Any) -> None:
        calls.append(args)
        if len(calls) == 2:
            raise OperationalError("the disk is full")
        record_same(*args)

    monkeypatch.setattr(pausing, "record_same", fail_at_the_second)
    with pytest.raises(OperationalError):
        set_all_paused(everything(), True)
    paused = Relayer.objects.filter(paused=True).count()
    assert (paused, Delivery.objects.count(), AuditEntry.objects.count()) == (3, 3, 3)


def test_exactly_what_the_page_asked_about_is_paused_for_a_reason(admin_client: Client) -> None:
    make_relayers(0, 1_100)
    Relayer.objects.filter(identifier="r-3").update(paused=True)
    gone = Relayer.objects.get(identifier="r-5")
    url = f"{LIST}?network=sepolia"
    page = admin_client.post(url, select("pause_selected", gone, select_across="1"))
    assert page.context["title"] == "Pause relayers"
    assert page.context["texts"] == [
        "Pause 1,099 relayers? Webhooks receive relayer.paused; fee estimates are still available.",
        "Skipped: 1 relayer (already paused).",
    ]
    assert [row[0] for row in asked(page)] == [f"r-{number}" for number in range(10)]
    assert f'href="{change(Relayer.objects.get(identifier="r-0"))}"' in page.content.decode()
    assert "and 1,090 more" in page.content.decode()
    assert len(hidden_fields(page)) == 3
    assert admin_client.post(LIST, hidden_fields(page) | {"confirmed": "nonsense"}).status_code == 400
    page = admin_client.post(url, hidden_fields(page) | {"reason": " "})
    assert page.context["form"].errors == {"reason": ["This field is required."]}
    assert Relayer.objects.filter(paused=True).count() == 1
    # Of those, one is deleted and one paused by another; and there is one more that fits.
    gone.delete()
    Relayer.objects.filter(identifier="r-6").update(paused=True)
    make_relayers(1_100, 1_101)
    page = admin_client.post(url, hidden_fields(page) | {"reason": "Why."}, follow=True)
    assert page.redirect_chain == [(url, 302)]
    assert told(page) == ["Paused: 1,097 relayers. Skipped: 3 (already paused)."]
    assert not Relayer.objects.get(identifier="r-1100").paused


def test_the_page_of_a_relayer_offers_what_applies_and_asks_why(admin_client: Client) -> None:
    relayer = factories.relayer(notification=factories.notification())
    assert buttons(admin_client.get(change(relayer))) == ["Pause", DELIVERIES]
    page = admin_client.get(f"{LIST}{relayer.pk}/pause/")
    assert page.context["title"] == "Pause relayer"
    assert admin_client.post(f"{LIST}{relayer.pk}/pause/").context["form"].errors
    assert not Relayer.objects.get().paused

    page = admin_client.post(f"{LIST}{relayer.pk}/pause/", {"reason": "The vault is moved"}, follow=True)
    assert page.redirect_chain == [(change(relayer), 302)]
    assert (told(page), buttons(page)) == (["Paused: 1 relayer."], ["Resume", DELIVERIES])
    page = admin_client.post(f"{LIST}{relayer.pk}/resume/", follow=True)
    assert (told(page), buttons(page)) == (["Resumed: 1 relayer."], ["Pause", DELIVERIES])
    assert list(AuditEntry.objects.order_by("pk").values_list("reason", flat=True)) == ["The vault is moved", ""]
    assert Delivery.objects.count() == 2
