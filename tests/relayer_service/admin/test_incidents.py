"""Acknowledged causes: hidden until they get worse or begin again, with who did it in the audit log."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import transaction
from django.test import Client

from relayer_service.console.overview.incidents import prune_acknowledgements
from relayer_service.models import Acknowledgement, AuditEntry, PeriodicRun
from relayers.models import Relayer, RelayerHealth
from tests.concurrency import in_threads
from tests.notifications.admin_pages import staff_who_may, told
from tests.notifications.clock import NOON, Clock, clock
from tests.relayer_service.admin.overview_pages import acknowledged, attention, posted, text
from tests.relayers import factories

__all__ = ["clock"]

pytestmark = pytest.mark.django_db

TITLE = "sepolia: no node answers"
ACKNOWLEDGE, UNDO = "/admin/attention/acknowledge/", "/admin/attention/undo/"
HOUR = timedelta(hours=1)


def operator(name: str = "ada", *others: str) -> Client:
    user = User.objects.create_user(name, is_staff=True)
    codenames = ("view_relayer", "acknowledge", *others)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client = Client()
    client.force_login(user)
    return client


def fail(number: int, **changes: Any) -> Relayer:
    values = {"failed_checks": 1, "failing_since": NOON - HOUR, "checked_at": NOON, "nonce": 7, "balance_text": "5"}
    return factories.relayer(identifier=f"relayer-{number}", name=f"R{number}", due_at=NOON, **values | changes)


def rows(client: Client) -> list[str]:
    """Return the rows about nodes, up to their number."""
    return [line.partition(" R")[0] for line in attention(client) if line.startswith(TITLE)]


@pytest.fixture
def staff(clock: Clock) -> Client:
    fail(1)
    fail(2)
    client = operator()
    assert rows(client) == [f"{TITLE} 2 relayers"]
    return client


def test_an_acknowledged_cause_is_hidden_with_who_and_why_until_it_is_undone(staff: Client) -> None:
    page = staff.post(ACKNOWLEDGE, posted(staff, TITLE) | {"note": "Provider is on it"}, follow=True)
    assert told(page) == [f"Acknowledged: {TITLE}."]
    assert rows(staff) == []
    assert acknowledged(staff) == [
        f"{TITLE} 2 relayers ada, 2026-01-01 12:00 UTC: Provider is on it Since 2026-01-01 11:00 UTC, for 1 hour"
    ]
    page = staff.post(UNDO, {"cause": "relayers.nodes:sepolia"}, follow=True)
    assert told(page) == [f"Shown again: {TITLE}."]
    assert (rows(staff), acknowledged(staff)) == ([f"{TITLE} 2 relayers"], [])
    entries = AuditEntry.objects.filter(object_type="acknowledgement").order_by("id")
    assert list(entries.values_list("actor", "object_id", "action", "reason")) == [
        ("ada", TITLE, "acted", "Acknowledged. Provider is on it"),
        ("ada", TITLE, "acted", "Acknowledgement undone"),
    ]
    (card,) = [card for card in staff.get("/admin/").context["cards"] if card.title == "Your last changes"]
    assert [text(row[0]) for row in card.rows][:2] == [f"{TITLE} Acknowledgement undone", f"{TITLE} Acknowledged"]


def first_recovers() -> None:
    health = RelayerHealth.objects.filter(relayer__identifier="relayer-1")
    health.update(failed_checks=0, failing_since=None)


def others_fail(count: int, since: datetime) -> None:
    first_recovers()
    for number in range(count):
        fail(3 + number, failing_since=since)


def first_is_disabled() -> None:
    values = {"disabled_reason_type": "NonceSyncFailed", "disabled_reason_details": "Why."}
    RelayerHealth.objects.filter(relayer__identifier="relayer-1").update(system_disabled=True, **values)


LATER = NOON + timedelta(seconds=30)
CHANGES: dict[str, tuple[Callable[[], Any], int]] = {
    "fewer have it": (first_recovers, 0),
    "as many have it, and had it before": (partial(others_fail, 1, NOON - HOUR), 0),
    "more have it": (partial(others_fail, 2, NOON - HOUR), 3),
    "others have it instead": (partial(others_fail, 1, LATER), 2),
    "it is more severe": (first_is_disabled, 2),
    "it ended and began again": (lambda: RelayerHealth.objects.update(failing_since=LATER), 2),
}


def test_an_acknowledged_cause_is_shown_again_when_it_gets_worse(staff: Client, clock: Clock) -> None:
    staff.post(ACKNOWLEDGE, posted(staff, TITLE))
    clock.forward(60)
    for name, (change, number) in CHANGES.items():
        with transaction.atomic():
            change()
            assert rows(staff) == [f"{TITLE} {number} relayers"] * bool(number), name
            transaction.set_rollback(True)


def test_the_acknowledgement_of_a_cause_that_ended_is_deleted(staff: Client) -> None:
    staff.post(ACKNOWLEDGE, posted(staff, TITLE))
    prune_acknowledgements.call_local()
    assert Acknowledgement.objects.count() == 1
    # Its next turn.
    PeriodicRun.objects.all().delete()
    RelayerHealth.objects.update(failed_checks=0, failing_since=None)
    prune_acknowledgements.call_local()
    assert Acknowledgement.objects.count() == 0


def test_a_cause_that_has_changed_or_ended_is_not_acknowledged(staff: Client) -> None:
    form = posted(staff, TITLE)
    assert [staff.get(path).status_code for path in (ACKNOWLEDGE, UNDO)] == [405, 405]
    fail(3)
    page = staff.post(ACKNOWLEDGE, form, follow=True)
    assert told(page) == [f"Not acknowledged, as it has changed: {TITLE}, 3 relayers."]
    # Neither by those who may not view it.
    viewed = Permission.objects.get(codename="view_relayer")
    user = User.objects.get(username="ada")
    user.user_permissions.remove(viewed)
    assert told(staff.post(ACKNOWLEDGE, form | {"number": "9"}, follow=True)) == ["This problem has already ended."]
    user.user_permissions.add(viewed)
    RelayerHealth.objects.update(failed_checks=0)
    assert told(staff.post(ACKNOWLEDGE, form, follow=True)) == ["This problem has already ended."]
    assert not Acknowledgement.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_of_two_who_acknowledge_at_once_one_does_and_the_other_learns_it(staff: Client) -> None:
    form, clients = posted(staff, TITLE), [staff, operator("ben")]
    in_threads(*(partial(client.post, ACKNOWLEDGE, form) for client in clients))
    texts = [told(client.get("/admin/")) for client in clients]
    first = Acknowledgement.objects.get().by
    assert sorted(text for (text,) in texts) == sorted(
        [f"Acknowledged: {TITLE}.", f"{first} has already acknowledged it."]
    )
    assert AuditEntry.objects.filter(object_type="acknowledgement").count() == 1


def test_only_those_who_may_acknowledge_do_so(client: Client, clock: Clock) -> None:
    fail(1)
    staff_who_may(client, "view_relayer")
    assert "Acknowledge:" not in client.get("/admin/").content.decode()
    form = {"cause": "relayers.nodes:sepolia", "number": "9"}
    assert [client.post(path, form).status_code for path in (ACKNOWLEDGE, UNDO)] == [403, 403]
    assert not Acknowledgement.objects.exists()
