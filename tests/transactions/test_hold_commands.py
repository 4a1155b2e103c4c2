"""The commands `hold_lanes` and `release_lanes`."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from pytest_django import DjangoCaptureOnCommitCallbacks

from relayer_service.background.tasks import queue
from relayer_service.models import AuditEntry
from tests.relayers import factories as relayers
from tests.relayers.config_files import OTHER_ADDRESS, OTHER_KEY
from tests.relayers.factories import ADDRESS
from tests.transactions import factories
from transactions.management.commands.release_lanes import LOCAL_ONLY
from transactions.models import Hold, Lane
from transactions.repair.holding import RISKS
from transactions.settlement.nonces import epochs

pytestmark = pytest.mark.django_db

FIRST, SECOND = f"{ADDRESS} on chain 31337", f"{OTHER_ADDRESS} on chain 11155111"


@pytest.fixture
def lanes() -> tuple[Lane, Lane]:
    other = relayers.signer("signer-2", OTHER_KEY)
    return (
        factories.lane(relayers.relayer(network="hardhat")),
        factories.lane(relayers.relayer(identifier="relayer-2", signer=other, address=OTHER_ADDRESS)),
    )


def run(name: str, *arguments: str) -> list[str]:
    output = io.StringIO()
    call_command(name, *arguments, stdout=output)
    return output.getvalue().splitlines()


def refused(*arguments: str) -> tuple[str, list[str]]:
    output = io.StringIO()
    with pytest.raises(CommandError) as raised:
        call_command("release_lanes", *arguments, stdout=output)
    return str(raised.value), output.getvalue().splitlines()


def held() -> list[dict[str, str]]:
    """Return the reasons of each lane, with their details."""
    return [{reason: entry["details"] for reason, entry in lane.holds.items()} for lane in Lane.objects.order_by("pk")]


def test_every_lane_is_held_for_staff_with_a_reason(lanes: Any) -> None:
    assert run("hold_lanes", "--reason", "Key ceremony") == [f"{FIRST}: held", f"{SECOND}: held", "2 held."]
    assert held() == [{"operator": "Key ceremony"}, {"operator": "Key ceremony"}]
    entries = AuditEntry.objects.filter(object_type="lane").order_by("pk")
    assert [(entry.who, entry.reason) for entry in entries] == 2 * [
        ("Command hold_lanes", "Held: Held by staff. Key ceremony")
    ]


def test_only_named_relayers_and_lanes_that_are_not_held_are_held(
    lanes: Any, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    assert run("hold_lanes", "--relayer", "relayer-1", "--reason", "Key ceremony") == [f"{FIRST}: held", "1 held."]
    assert run("hold_lanes", "--reason", "Again") == [f"{FIRST}: already held", f"{SECOND}: held", "1 held."]
    assert held() == [{"operator": "Key ceremony"}, {"operator": "Again"}]
    with django_capture_on_commit_callbacks(execute=True):
        assert run("release_lanes", "--relayer", "relayer-2") == [f"{SECOND}: released"]
    assert held() == [{"operator": "Key ceremony"}, {}]
    # It takes its turn now.
    assert [(task.name, task.args) for task in queue.pending()] == [("wake_lane", (lanes[1].pk,))]


def test_after_a_restore_lanes_are_held_for_lost_commits(lanes: Any) -> None:
    run("hold_lanes", "--restored")
    assert held() == 2 * [{"lost_commits": "The database was restored from a backup."}]
    run("hold_lanes", "--reason", "and by hand")
    assert held()[0] == {"lost_commits": "The database was restored from a backup.", "operator": "and by hand"}


@pytest.mark.parametrize("reason", [Hold.LOST_COMMITS, Hold.EXTERNAL, Hold.CHAIN])
def test_a_hold_that_protects_is_ended_only_by_who_accepts_the_risk(lanes: Any, reason: Hold) -> None:
    run("hold_lanes")
    Lane.objects.filter(pk=lanes[0].pk).update(holds={reason: {"since": "2026-11-16T12:00:00Z", "details": ""}})
    assert refused() == (
        "Still held: 1. Read the risk above, or add --accept-risk.",
        [f"{FIRST}: still held", f"  {reason.label}. {RISKS[reason]}", f"{SECOND}: released"],
    )
    assert [list(found) for found in held()] == [[reason], []]
    assert run("release_lanes", "--accept-risk") == [f"{FIRST}: released", f"{SECOND}: not held"]
    assert held() == [{}, {}]
    assert AuditEntry.objects.filter(object_type="lane").latest("pk").reason == (
        f"Released: {reason.label}. Released by the command release_lanes."
    )


def test_a_public_chain_is_never_taken_for_a_new_one(lanes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    monkeypatch.setattr(epochs, "start_epoch", lambda lane: started.append(lane.pk))
    assert refused("--new-chain") == (f"{SECOND}: {LOCAL_ONLY}", [])
    assert started == []
    run("release_lanes", "--new-chain", "--relayer", "relayer-1")
    assert started == [lanes[0].pk]
