"""Pausing and resuming many relayers, after a confirmation with a reason."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoCaptureOnCommitCallbacks

from notifications.delivery import counts
from notifications.models import Delivery, Notification
from relayer_service.audit.recording import record_same
from relayer_service.background.tasks import queue
from relayer_service.models import AuditEntry
from relayer_service.storage.selections import Selection
from relayers import states
from relayers.models import Relayer
from relayers.states import set_all_paused
from tests.concurrency import in_threads
from tests.notifications.admin_pages import asked, buttons, confirm, hidden_fields, staff_who_may, told
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


def test_a_thousand_are_paused_with_as_many_queries_as_ten() -> None:
    hook = factories.notification()
    counts = []
    for first, last in ((0, 10), (10, 1_010)):
        make_relayers(first, last, hook)
        with CaptureQueriesContext(connection) as queries:
            assert set_all_paused(everything(), True, "Why.") == last - first
        counts.append(len(queries))
    assert counts[0] == counts[1]
    assert (Delivery.objects.count(), AuditEntry.objects.count()) == (1_010, 1_010)


def test_each_relayer_has_its_own_event_and_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "BATCH_SIZE", 2)
    make_relayers(0, 5, factories.notification())
    assert set_all_paused(everything(), True, "Why.") == 5
    names = {f"r-{number}" for number in range(5)}
    assert {entry.object_id for entry in AuditEntry.objects.filter(reason="Why.")} == names
    assert len(set(Delivery.objects.values_list("identifier", flat=True))) == 5
    assert AuditEntry.objects.values("object_type", "action", "changes").distinct().get() == {
        "object_type": "relayer",
        "action": "changed",
        "changes": {"paused": [False, True]},
    }


def test_the_workers_are_notified_once_for_each_webhook(
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states, "BATCH_SIZE", 2)
    hooks = [factories.notification(name) for name in ("hook-1", "hook-2")]
    make_relayers(0, 5, hooks[0])
    make_relayers(5, 10, hooks[1])
    with django_capture_on_commit_callbacks(execute=True):
        set_all_paused(everything(), True)
    assert sorted(task.args for task in queue.pending()) == [(hook.pk,) for hook in hooks]


def test_events_for_a_disabled_webhook_are_skipped_and_counted() -> None:
    hook = factories.notification()
    Notification.objects.update(enabled=False)
    make_relayers(0, 7, hook)
    assert set_all_paused(everything(), True) == 7
    assert (Delivery.objects.count(), counts.skipped_events(hook)) == (0, 7)


@pytest.mark.django_db(transaction=True)
def test_two_concurrent_pauses_emit_one_event_for_each_relayer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "BATCH_SIZE", 3)
    make_relayers(0, 20, factories.notification())
    counts = in_threads(*[partial(set_all_paused, everything(), True)] * 3)
    assert sum(counts) == 20
    assert not Relayer.objects.filter(paused=False).exists()
    assert Delivery.objects.count() == 20
    assert set(Counter(AuditEntry.objects.values_list("object_id", flat=True)).values()) == {1}


@pytest.mark.django_db(transaction=True)
def test_a_failure_undoes_its_batch_whole_and_leaves_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "BATCH_SIZE", 3)
    make_relayers(0, 6, factories.notification())
    calls: list[Any] = []

    def fail_at_the_second(*args: Any) -> None:
        calls.append(args)
        if len(calls) == 2:
            raise OperationalError("the disk is full")
        record_same(*args)

    monkeypatch.setattr(states, "record_same", fail_at_the_second)
    with pytest.raises(OperationalError):
        set_all_paused(everything(), True)
    paused = Relayer.objects.filter(paused=True).count()
    assert (paused, Delivery.objects.count(), AuditEntry.objects.count()) == (3, 3, 3)


def test_the_page_asks_why_and_says_how_many_and_what_happens(admin_client: Client) -> None:
    make_relayers(0, 12)
    Relayer.objects.filter(identifier="r-3").update(paused=True)
    page = admin_client.post(LIST, select("pause_selected", Relayer.objects.all()[0], select_across="1"))
    assert page.context["title"] == "Pause relayers"
    assert page.context["texts"] == [
        "Pause 11 relayers? Webhooks receive relayer.paused; fee estimates are still available.",
        "Skipped: 1 relayer (already paused).",
    ]
    assert [row[0] for row in asked(page)] == [f"r-{number}" for number in range(10)]
    assert f'href="{change(Relayer.objects.get(identifier="r-0"))}"' in page.content.decode()
    assert "and 2 more" in page.content.decode()
    assert not Relayer.objects.filter(paused=True).exclude(identifier="r-3").exists()


def test_exactly_what_was_asked_about_is_paused_however_many(admin_client: Client) -> None:
    make_relayers(0, 1_100)
    gone = Relayer.objects.get(identifier="r-5")
    url = f"{LIST}?network=sepolia"
    page = admin_client.post(url, select("pause_selected", gone, select_across="1"))
    assert len(hidden_fields(page)) == 3
    # Of those, one is deleted and one paused by another; and there is one more that fits.
    gone.delete()
    Relayer.objects.filter(identifier="r-6").update(paused=True)
    make_relayers(1_100, 1_101)
    page = admin_client.post(url, hidden_fields(page) | {"reason": "Why."}, follow=True)
    assert page.redirect_chain == [(url, 302)]
    assert told(page) == ["Paused: 1,098 relayers. Skipped: 2 (already paused)."]
    assert not Relayer.objects.get(identifier="r-1100").paused


def test_what_was_not_asked_about_by_the_page_is_refused(admin_client: Client) -> None:
    relayer = factories.relayer()
    form = select("pause_selected", relayer, confirmed="nonsense", reason="Why.")
    assert admin_client.post(LIST, form).status_code == 400


def test_nothing_is_paused_without_a_reason(admin_client: Client) -> None:
    relayer = factories.relayer()
    page = confirm(admin_client, LIST, select("pause_selected", relayer), reason=" ")
    assert page.context["form"].errors == {"reason": ["This field is required."]}
    assert not Relayer.objects.get().paused
    page = admin_client.post(LIST, hidden_fields(page) | {"reason": "Why."}, follow=True)
    assert told(page) == ["Paused: 1 relayer."]


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


def test_staff_who_may_only_view_have_no_button_and_pause_nothing(client: Client) -> None:
    viewer = staff_who_may(client, "view_relayer")
    relayer = factories.relayer()
    assert buttons(viewer.get(change(relayer))) == []
    for method in (viewer.get, viewer.post):
        assert method(f"{LIST}{relayer.pk}/pause/", {"reason": "Why."}).status_code == 403
    viewer.post(LIST, select("pause_selected", relayer, confirmed=str(relayer.pk), reason="Why."))
    assert not Relayer.objects.get().paused
