"""Acknowledged causes: hidden until they get worse or begin again, with who did it in the audit log."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from relayer_service.console.overview.incidents import prune_acknowledgements
from relayer_service.models import Acknowledgement, AuditEntry, PeriodicRun
from relayers.models import Relayer, RelayerHealth
from tests.concurrency import in_threads
from tests.notifications.admin_pages import told
from tests.notifications.clock import NOON, Clock, clock
from tests.relayer_service.admin.overview_pages import acknowledged, attention, posted
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
        ("ada", TITLE, "created", "Provider is on it"),
        ("ada", TITLE, "deleted", ""),
    ]


def test_a_cause_comes_back_when_more_have_it_but_not_when_fewer_do(staff: Client) -> None:
    staff.post(ACKNOWLEDGE, posted(staff, TITLE))
    RelayerHealth.objects.filter(relayer__identifier="relayer-1").update(failed_checks=0, failing_since=None)
    assert rows(staff) == []
    fail(3)
    assert rows(staff) == []
    fail(4)
    assert rows(staff) == [f"{TITLE} 3 relayers"]


def test_a_cause_comes_back_when_others_have_it_instead(staff: Client, clock: Clock) -> None:
    staff.post(ACKNOWLEDGE, posted(staff, TITLE))
    clock.forward(60)
    RelayerHealth.objects.filter(relayer__identifier="relayer-1").update(failed_checks=0, failing_since=None)
    assert rows(staff) == []
    fail(3, failing_since=clock.now)
    assert rows(staff) == [f"{TITLE} 2 relayers"]


def test_a_cause_comes_back_when_it_becomes_more_severe(staff: Client) -> None:
    staff.post(ACKNOWLEDGE, posted(staff, TITLE))
    RelayerHealth.objects.filter(relayer__identifier="relayer-1").update(
        system_disabled=True, disabled_reason_type="NonceSyncFailed", disabled_reason_details="Why."
    )
    assert rows(staff) == [f"{TITLE} 2 relayers"]


def test_a_cause_that_ended_and_began_again_is_shown(staff: Client, clock: Clock) -> None:
    staff.post(ACKNOWLEDGE, posted(staff, TITLE))
    clock.forward(60)
    RelayerHealth.objects.update(failing_since=NOON + timedelta(seconds=30))
    assert rows(staff) == [f"{TITLE} 2 relayers"]


def test_the_acknowledgement_of_a_cause_that_ended_is_deleted(staff: Client) -> None:
    staff.post(ACKNOWLEDGE, posted(staff, TITLE))
    prune_acknowledgements.call_local()
    assert Acknowledgement.objects.count() == 1
    # Its next turn.
    PeriodicRun.objects.all().delete()
    RelayerHealth.objects.update(failed_checks=0, failing_since=None)
    prune_acknowledgements.call_local()
    assert Acknowledgement.objects.count() == 0


def test_a_page_that_shows_fewer_cannot_acknowledge_more(staff: Client) -> None:
    form = posted(staff, TITLE)
    fail(3)
    page = staff.post(ACKNOWLEDGE, form, follow=True)
    assert told(page) == [f"Not acknowledged, as it has changed: {TITLE}, 3 relayers."]
    assert rows(staff) == [f"{TITLE} 3 relayers"]


def test_a_cause_that_has_ended_is_not_acknowledged(staff: Client) -> None:
    form = posted(staff, TITLE)
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


@pytest.mark.parametrize("path", [ACKNOWLEDGE, UNDO])
def test_only_those_who_may_acknowledge_do_so(client: Client, clock: Clock, path: str) -> None:
    fail(1)
    user = User.objects.create_user("vera", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_relayer"))
    client.force_login(user)
    assert "Acknowledge:" not in client.get("/admin/").content.decode()
    assert client.post(path, {"cause": "relayers.nodes:sepolia", "number": "9"}).status_code == 403
    assert not Acknowledgement.objects.exists()


def test_nobody_acknowledges_what_they_may_not_view(clock: Clock) -> None:
    fail(1)
    client = operator()
    User.objects.get(username="ada").user_permissions.remove(Permission.objects.get(codename="view_relayer"))
    page = client.post(ACKNOWLEDGE, {"cause": "relayers.nodes:sepolia", "number": "9"}, follow=True)
    assert told(page) == ["This problem has already ended."]
    assert not Acknowledgement.objects.exists()


def test_a_get_changes_nothing(staff: Client) -> None:
    assert [staff.get(path).status_code for path in (ACKNOWLEDGE, UNDO)] == [405, 405]
