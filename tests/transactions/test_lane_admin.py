"""Lanes in the admin: why one does not send, and who holds and releases it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from relayer_service.models import AuditEntry
from tests.notifications.admin_pages import asked, buttons, confirm, rows, staff_who_may, told
from tests.relayers import factories as relayer_factories
from tests.transactions import factories
from transactions.console.lanes import RELEASE_EFFECT
from transactions.models import Hold, Lane, Status, Transaction
from transactions.repair.holding import RISKS

pytestmark = pytest.mark.django_db

LIST = "/admin/transactions/lane/"
NOON = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)
SINCE = "2026-03-04T12:00:00.000000Z"
GWEI = 10**9


def create_lane(number: int = 1, **changes: Any) -> Lane:
    address = f"0x{number:040}"
    relayer = relayer_factories.relayer(identifier=f"relayer-{number}", address=address)
    return factories.lane(relayer, **changes)


def held(number: int = 1, **details: str) -> Lane:
    """Return a lane with a hold for each reason, by its details."""
    holds = {reason: {"since": SINCE, "details": text} for reason, text in details.items()}
    return create_lane(number, holds=holds, held_since=NOON)


def page(lane: Lane) -> str:
    return f"{LIST}{lane.pk}/change/"


def in_flight(lane: Lane, nonce: int, **changes: Any) -> Transaction:
    row = factories.transaction(lane, nonce=nonce, status=Status.SUBMITTED, sent_at=NOON, **changes)
    factories.attempt(row, gas_price_text=str(3 * GWEI))
    return row


def holder(client: Client) -> Client:
    return staff_who_may(client, "view_lane", "change_lane")


def test_the_list_shows_why_lanes_wait_and_is_filtered_and_searched(admin_client: Client) -> None:
    lane = create_lane(1, chain_nonce=7, next_nonce=9, waiting="funds", waiting_since=NOON, waiting_details="0.5 ETH")
    in_flight(lane, 7)
    in_flight(lane, 8)
    factories.transaction(lane)
    held(2, operator="Key rotation")
    create_lane(3)
    assert rows(admin_client.get(LIST)) == [
        ["0x0000…000003", "relayer-3", "running", "sepolia", "-", "0", "0", "0", "-", "-"],
        [
            *("0x0000…000002", "relayer-2", "held by staff", "sepolia", "-", "0", "0", "0", "-"),
            "Held by staff: Key rotation.",
        ],
        [
            *("0x0000…000001", "relayer-1", "waiting for funds", "sepolia", "7", "9", "2", "1", "-"),
            "Waiting for funds: 0.5 ETH.",
        ],
    ]
    for query, expected in (
        ("state=held", ["0x0000…000002"]),
        ("state=waiting", ["0x0000…000001"]),
        ("state=running", ["0x0000…000003"]),
        ("q=0x0000000000000000000000000000000000000003", ["0x0000…000003"]),
        ("q=relayer-2", ["0x0000…000002"]),
        ("network=mainnet", []),
    ):
        assert [row[0] for row in rows(admin_client.get(f"{LIST}?{query}"))] == expected, query


def test_the_page_shows_holds_and_the_nonces_in_flight(admin_client: Client) -> None:
    lane = held(1, lost_commits="The timeline changed from 1 to 2")
    Lane.objects.update(seal_below=40, epoch=2, window=4)
    in_flight(lane, 8, identifier="tx-8", kind="gap", epoch=2)
    in_flight(lane, 7, identifier="tx-7", epoch=2)
    factories.transaction(lane)
    found = admin_client.get(page(lane))
    state = found.context["lane_state"]
    facts = {name: value for name, value in state["facts"].items() if name != "State"}
    assert facts == {
        "Chain nonce": "not read yet",
        "Final nonce": "not read yet",
        "Next nonce": "0",
        "In flight": "2",
        "Queued": "1",
        "Mined, not final": "0",
        "Head since": "-",
        "Window": "4",
        "Epoch": "2",
        "Worker": "none",
        "Closing nonces below": "40",
    }
    text = found.content.decode()
    assert "since 2026-03-04 12:00 UTC: The timeline changed from 1 to 2" in text
    first, second = state["table"]["rows"]
    assert (first[0], "tx-7" in first[1], first[3:5]) == ("7", True, ["1", "3 gwei"])
    assert (second[0], "(No-op that closes a nonce)" in second[1]) == ("8", True)


def test_staff_hold_a_lane_with_a_reason(client: Client) -> None:
    lane, staff = create_lane(), holder(client)
    assert buttons(staff.get(page(lane))) == ["Hold"]
    without = staff.post(f"{LIST}{lane.pk}/hold/", {"reason": ""})
    assert without.context["form"].errors == {"reason": ["This field is required."]}
    done = staff.post(f"{LIST}{lane.pk}/hold/", {"reason": "Key rotation"}, follow=True)
    assert told(done) == ["Held: 1 lane."]
    lane.refresh_from_db()
    assert {name: entry["details"] for name, entry in lane.holds.items()} == {"operator": "Key rotation"}
    assert lane.held_since is not None
    entry = AuditEntry.objects.for_row(lane).get()
    assert (entry.actor, entry.reason) == ("vera", "Held: Held by staff. Key rotation")
    assert buttons(done) == ["Release"]


def test_a_release_spells_out_the_risks_and_ends_the_chosen_holds_only(client: Client) -> None:
    lane, staff = held(lost_commits="Timeline 2", operator="Key rotation"), holder(client)
    assert buttons(staff.get(page(lane))) == ["Release"]
    url = f"{LIST}{lane.pk}/release/"
    asks = staff.get(url)
    labels = {reason: Hold(reason).label for reason in lane.holds}
    assert sorted(asks.context["texts"]) == sorted(
        [RELEASE_EFFECT, *(f"“{label}”: {RISKS[reason]}" for reason, label in labels.items())]
    )
    # Only what staff have set themselves is chosen.
    assert asks.context["form"].initial == {"holds": ["operator"]}
    assert all("twice" in RISKS[reason] for reason in (Hold.LOST_COMMITS, Hold.EXTERNAL))
    assert set(RISKS) == set(Hold)
    asks = staff.post(url, {"holds": ["chain"], "reason": ""})
    assert set(asks.context["form"].errors) == {"holds", "reason"}
    lane.refresh_from_db()
    assert {*lane.holds} == {"lost_commits", "operator"}
    done = staff.post(url, {"holds": ["operator"], "reason": "Rotated"}, follow=True)
    assert told(done) == ["Released: 1 lane."]
    lane.refresh_from_db()
    assert [*lane.holds] == ["lost_commits"]
    entry = AuditEntry.objects.for_row(lane).get()
    assert (entry.actor, entry.reason) == ("vera", "Released: Held by staff. Rotated")
    staff.post(url, {"holds": ["lost_commits"], "reason": "Compared by hand"})
    lane.refresh_from_db()
    assert (lane.holds, lane.held_since) == ({}, None)


def test_selected_lanes_are_held_and_released_together(client: Client) -> None:
    lanes, staff = [create_lane(1), held(2, operator="Before"), held(3, external="Nonce 5")], holder(client)
    chosen: dict[str, Any] = {"_selected_action": [lane.pk for lane in lanes]}
    assert asked(staff.post(LIST, chosen | {"action": "hold_selected"})) == [
        [f"{lanes[0].address} on chain 11155111", "relayer-1", "not held"],
        [f"{lanes[1].address} on chain 11155111", "relayer-2", "Held by staff (since 2026-03-04 12:00 UTC)"],
        [
            *(f"{lanes[2].address} on chain 11155111", "relayer-3"),
            "The account was used elsewhere (since 2026-03-04 12:00 UTC)",
        ],
    ]
    done = confirm(staff, LIST, chosen | {"action": "hold_selected"}, reason="Incident")
    assert told(done) == ["Held: 2 lanes. Skipped: 1 (already held by staff)."]
    done = confirm(staff, LIST, chosen | {"action": "release_selected"}, reason="Over")
    assert told(done) == ["Released: 3 lanes."]
    assert [sorted(lane.holds) for lane in Lane.objects.order_by("pk")] == [[], [], ["external"]]


def test_who_may_only_view_lanes_is_offered_nothing(client: Client) -> None:
    page_of_lane = staff_who_may(client, "view_lane").get(page(held(operator="Key rotation")))
    assert (page_of_lane.status_code, buttons(page_of_lane)) == (200, [])


def test_a_list_of_many_makes_as_many_queries_as_one_of_few(admin_client: Client) -> None:
    counted = []
    for first, last in ((1, 4), (4, 40)):
        for number in range(first, last):
            in_flight(create_lane(number), 7)
        admin_client.get(LIST)
        with CaptureQueriesContext(connection) as queries:
            admin_client.get(LIST)
        counted.append(len(queries))
    assert counted[0] == counted[1]


def test_a_page_with_many_nonces_makes_as_many_queries_as_one_with_few(admin_client: Client) -> None:
    lane, counted = create_lane(), []
    for first, last in ((0, 2), (2, 60)):
        for nonce in range(first, last):
            in_flight(lane, nonce)
        admin_client.get(page(lane))
        with CaptureQueriesContext(connection) as queries:
            found = admin_client.get(page(lane))
        counted.append(len(queries))
    assert counted[0] == counted[1]
    assert found.context["lane_state"]["more"] == "and 10 more"
