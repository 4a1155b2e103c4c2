"""Transactions and lanes on the overview and on the page of a relayer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from relayer_service.console.lists import changelists
from relayers.models import RelayerHealth
from tests.notifications.admin_pages import staff_who_may
from tests.notifications.clock import NOON, Clock, clock
from tests.relayer_service.admin.overview_pages import attention, links, part, parts, posted, rows, text
from tests.relayers import factories as relayer_factories
from tests.transactions import factories
from transactions.console.overview import late_rows
from transactions.models import Lane, Status, Transaction

__all__ = ["clock"]

pytestmark = pytest.mark.django_db

VIEW = ("view_transaction", "view_lane")
SINCE = {"since": "2026-01-01T11:00:00.000000Z"}
HELD = {"operator": {**SINCE, "details": "Key rotation"}, "external": {**SINCE, "details": "Nonce 5"}}


@pytest.fixture(autouse=True)
def _enabled(settings: Settings, clock: Clock) -> None:
    """Enable the extension, at noon."""
    settings.EXTENSIONS = ["transactions"]


def ago(**duration: float) -> datetime:
    return NOON - timedelta(**duration)


def create_lane(number: int = 1, network: str = "sepolia", **changes: Any) -> Lane:
    relayer = relayer_factories.relayer(
        identifier=f"relayer-{number}", name="Treasury", address=f"0x{number:040}", network=network
    )
    return factories.lane(relayer, **changes)


def in_flight(lane: Lane, nonce: int, **changes: Any) -> Transaction:
    row = factories.transaction(lane, nonce=nonce, status=Status.SUBMITTED, **changes)
    factories.attempt(row)
    return row


def about_transactions(client: Client) -> list[str]:
    """Return the lines about lanes and transactions, without the times at their end."""
    found = [line.partition(" Since ")[0] for line in attention(client)]
    return [line for line in found if any(part in line for part in ("lanes", "transactions that wait", "nonce"))]


def test_lanes_that_do_not_send_are_grouped_by_network_and_reason(client: Client) -> None:
    staff = staff_who_may(client, *VIEW)
    assert about_transactions(staff) == []
    waiting: dict[str, Any] = {"waiting": "funds", "waiting_since": ago(minutes=2)}
    waiting["waiting_details"] = "0.5 ETH missing"
    lanes = [create_lane(1, holds=HELD, held_since=NOON), create_lane(2, **waiting)]
    create_lane(3, waiting="signer", waiting_since=ago(minutes=2), waiting_details="it timed out")
    create_lane(4, waiting="nodes", waiting_since=ago(seconds=30))
    for lane in lanes:
        # Each is named once.
        factories.transaction(lane, created_at=ago(minutes=20))
    assert about_transactions(staff) == [
        (
            "sepolia: held lanes 1 lane Treasury (relayer-1) : "
            "The account was used elsewhere: Nonce 5. Held by staff: Key rotation."
        ),
        "sepolia: lanes that wait for funds 1 lane Treasury (relayer-2) : Waiting for funds: 0.5 ETH missing.",
        "sepolia: lanes whose signer fails 1 lane Treasury (relayer-3) : The signer fails: it timed out.",
    ]
    create_lane(5, **waiting)
    create_lane(6, network="polygon", **waiting)
    url = links(part(staff, "Needs attention"))["sepolia: lanes that wait for funds"]
    assert staff.get(url).context["cl"].result_count == 2
    # Who may not view transactions.
    others = staff_who_may(client, "view_relayer", "view_lane")
    assert about_transactions(others) == []
    assert "Transactions" not in parts(others)


def test_an_acknowledged_lack_of_funds_is_shown_again_for_another_lane(client: Client, clock: Clock) -> None:
    staff = staff_who_may(client, *VIEW, "acknowledge")
    title = "sepolia: lanes that wait for funds"
    missing: dict[str, Any] = {"waiting": "funds", "waiting_since": ago(minutes=2), "missing_text": "5"}
    create_lane(1, **missing)
    second = Lane.objects.filter(pk=create_lane(2, **missing).pk)
    staff.post("/admin/attention/acknowledge/", posted(staff, title))
    clock.forward(120)
    second.update(waiting="nodes", waiting_since=NOON + timedelta(seconds=90))
    assert about_transactions(staff) == []
    second.update(waiting="", waiting_since=None, missing_text="")
    create_lane(3, **missing | {"waiting_since": NOON + timedelta(seconds=30)})
    assert [line.partition(" Treasury")[0] for line in about_transactions(staff)] == [f"{title} 2 lanes"]


def test_a_burst_of_failures_leads_to_the_first_of_them(client: Client) -> None:
    staff, lane = staff_who_may(client, *VIEW), create_lane(1)
    failed = [
        factories.transaction(lane, status=Status.FAILED, finished_at=ago(minutes=1), status_reason="It reverted.")
        for _ in range(5)
    ]
    (line,) = (each for each in attention(staff) if "transactions that failed" in each)
    assert ": The first of them: It reverted. Since " in line
    page = f"/admin/transactions/transaction/{failed[0].pk}/change/"
    assert links(part(staff, "Needs attention"))["Treasury (relayer-1)"] == page


def test_transactions_that_wait_too_long_are_named_once_per_relayer(client: Client) -> None:
    staff = staff_who_may(client, *VIEW)
    slow, fast, done = create_lane(1), create_lane(2, network="polygon"), create_lane(3)
    first = factories.transaction(
        slow, created_at=ago(seconds=350), status_reason="The market price is above the cap."
    )
    in_flight(fast, 5, created_at=ago(seconds=290))
    # Mined and final transactions do not wait.
    row = in_flight(done, 5, created_at=ago(hours=1))
    row.status, row.mined_attempt = Status.MINED, row.last_attempt
    row.save()
    factories.transaction(done, status=Status.FAILED, created_at=ago(hours=1))
    # 30 blocks of Sepolia are 6 minutes.
    assert about_transactions(staff) == []
    Transaction.objects.update(created_at=F("created_at") - timedelta(seconds=20))
    factories.transaction(slow, created_at=ago(seconds=365))
    in_flight(fast, 6, created_at=ago(seconds=305))
    assert [late for late in late_rows() if late.lane_id == slow.pk] == [first]
    assert about_transactions(staff) == [
        (
            "polygon: transactions that wait longer than expected 1 relayer Treasury (relayer-2) : "
            "The oldest is submitted: In the mempool."
        ),
        (
            "sepolia: transactions that wait longer than expected 1 relayer Treasury (relayer-1) : "
            "The oldest is pending: The market price is above the cap."
        ),
    ]
    page = f"/admin/transactions/lane/{slow.pk}/change/"
    assert links(part(staff, "Needs attention"))["Treasury (relayer-1)"] == page


def test_nonces_and_late_transactions_are_found_in_indexes() -> None:
    lane = create_lane()
    values: dict[str, Any] = {"lane": lane, "relayer": lane.relayer, "valid_until": NOON} | factories.final("failed")
    Transaction.objects.bulk_create((Transaction(nonce=nonce, **values) for nonce in range(1_000)), batch_size=500)
    factories.transaction(lane, created_at=ago(minutes=20))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE transactions_transaction")
        if connection.vendor == "postgresql":
            # The planner reads a small table whole even where it has an index for the query.
            cursor.execute("SET LOCAL enable_seqscan = off")
    by_nonce = Lane.objects.filter(transactions__nonce=7, transactions__epoch=0).values_list("transactions__pk")
    assert "transaction_nonce" in by_nonce.explain()
    assert "transaction_unfinished" in late_rows().explain()


def test_requests_that_are_due_and_have_no_nonce_are_named_once_per_network(client: Client) -> None:
    staff = staff_who_may(client, *VIEW)
    lane = create_lane(1)
    factories.transaction(lane, due_at=ago(seconds=50), created_at=ago(seconds=50))
    assert about_transactions(staff) == []
    factories.transaction(lane, due_at=ago(minutes=9), created_at=ago(minutes=9))
    held = create_lane(2, holds=HELD, held_since=NOON)
    disabled = create_lane(4)
    RelayerHealth.objects.filter(relayer__lane=disabled).update(
        system_disabled=True, disabled_reason_type="NonceSyncFailed"
    )
    for each in (held, create_lane(3, waiting="nodes", waiting_since=NOON), disabled):
        factories.transaction(each, due_at=ago(minutes=9), created_at=ago(minutes=9))
    assert about_transactions(staff)[-2:] == [
        (
            "sepolia: transactions that wait longer than expected 1 relayer Treasury (relayer-4) : "
            "The oldest is pending: The relayer is disabled."
        ),
        "sepolia: requests that are due and have no nonce 1 relayer No worker takes them, or too many wait.",
    ]
    url = links(part(staff, "Needs attention"))["sepolia: requests that are due and have no nonce"]
    assert staff.get(url).context["cl"].result_count == 5


def test_the_card_counts_open_transactions_and_lanes(client: Client) -> None:
    # Django tells how long ago that is by the real clock.
    lane = create_lane(1, head_since=datetime.now(UTC) - timedelta(minutes=3, seconds=20))
    create_lane(2, holds=HELD, held_since=NOON)
    create_lane(3, waiting="funds", waiting_since=ago(minutes=2))
    factories.transaction(lane)
    factories.transaction(lane)
    in_flight(lane, 5)
    for nonce, finished in enumerate((ago(hours=23), ago(hours=25)), 6):
        row = in_flight(lane, nonce)
        row.status, row.mined_attempt, row.finished_at = Status.CONFIRMED, row.last_attempt, finished
        row.save()
    for nonce, days in enumerate((1, 3), 8):
        factories.transaction(lane, nonce=nonce, **factories.final("failed") | {"finished_at": ago(days=days)})
    staff = staff_who_may(client, *VIEW)
    assert [[cell.replace("\xa0", " ") for cell in row] for row in rows(staff, "Transactions")] == [
        ["Pending", "2"],
        ["Sent", "0"],
        ["Submitted", "1"],
        ["Mined", "0"],
        ["Confirmed in the last day", "1"],
        ["Failed since yesterday", "1"],
        ["Longest wait for a next nonce", "3 minutes"],
        ["Held lanes", "1"],
        ["Waiting lanes", "1"],
    ]
    found = links(part(staff, "Transactions"))
    assert found["Held lanes"] == "/admin/transactions/lane/?state=held"
    assert staff.get(found["Failed since yesterday"]).context["cl"].result_count == 1


def test_without_the_extension_there_is_no_card_and_no_link(client: Client, settings: Settings) -> None:
    staff = staff_who_may(client, *VIEW)
    links_of_list = 'href="/admin/transactions/transaction/"'
    assert ("Transactions" in parts(staff), links_of_list in staff.get("/admin/").content.decode()) == (True, True)
    assert "transactions." in part(staff, "Checked")
    settings.EXTENSIONS = []
    assert "transactions." not in part(staff, "Checked")
    assert ("Transactions" in parts(staff), links_of_list in staff.get("/admin/").content.decode()) == (False, False)


def test_the_overview_makes_as_many_queries_for_many_lanes_as_for_few(client: Client) -> None:
    staff, counted = staff_who_may(client, *VIEW), []
    for first, last in ((1, 2), (2, 15)):
        for number in range(first, last):
            create_lane(3 * number, holds=HELD, held_since=NOON)
            create_lane(3 * number + 1, waiting="funds", waiting_since=ago(minutes=9))
            factories.transaction(create_lane(3 * number + 2), created_at=ago(minutes=20))
        staff.get("/admin/")
        with CaptureQueriesContext(connection) as queries:
            staff.get("/admin/")
        counted.append(len(queries))
    assert counted[0] == counted[1]


def test_a_long_queue_is_counted_up_to_a_maximum(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changelists, "MAX_COUNTED", 3)
    lane = create_lane()
    assert lane.relayer
    for _ in range(9):
        factories.transaction(lane)
    staff = staff_who_may(client, *VIEW, "view_relayer")
    assert rows(staff, "Transactions")[0] == ["Pending", "3+"]
    for path in (f"relayers/relayer/{lane.relayer.pk}", f"transactions/lane/{lane.pk}"):
        with CaptureQueriesContext(connection) as queries:
            page = staff.get(f"/admin/{path}/change/")
        assert "3+" in str(page.context.get("relayer_lane") or page.context["lane_state"])
        assert (page.context["stuck"]["headline"], page.context["stuck"]["more_waiting"]) == (
            "It is not stuck: 0 in flight, 3+ queued.",
            "and more",
        )
        # Two panels show it.
        assert len([each for each in queries if each["sql"].startswith("SELECT (SELECT COUNT(*)")]) == 1


def test_the_page_of_a_relayer_shows_its_lane(client: Client) -> None:
    lane = create_lane(chain_nonce=5, next_nonce=7, holds=HELD, held_since=NOON)
    assert lane.relayer
    in_flight(lane, 5)
    in_flight(lane, 6)
    factories.transaction(lane)
    staff = staff_who_may(client, "view_relayer", *VIEW)
    url = f"/admin/relayers/relayer/{lane.relayer.pk}/change/"
    page = staff.get(url)
    assert {name: text(value) for name, value in page.context["relayer_lane"]["facts"].items()} == {
        "Lane": "held: used elsewhere held by staff",
        "Account": "0x0000…000001",
        "Pending": "1",
        "Sent": "0",
        "Submitted": "2",
        "Mined": "0",
        "Chain nonce": "5",
        "Next nonce": "7",
    }
    assert "The account was used elsewhere: Nonce 5. Held by staff: Key rotation." in page.text
    # The newest of the three first.
    newest = [[text(cell) for cell in row] for row in page.context["relayer_lane"]["newest"]["rows"]]
    assert [row[1:4] for row in newest] == [
        [status, "0x7099…dc79C8", "0 ETH"] for status in ("pending", "submitted", "submitted")
    ]
    for number in range(3):
        factories.transaction(lane, value_text=str(number))
    newest = staff.get(url).context["relayer_lane"]["newest"]["rows"]
    assert [text(row[3]) for row in newest] == ["2 wei", "1 wei", "0 ETH", "0 ETH", "0 ETH"]
    chosen = f"/admin/transactions/transaction/?relayer__sequence__exact={lane.relayer.pk}"
    assert f'href="{chosen}&amp;status=failed"' in page.text
    idle = relayer_factories.relayer(identifier="idle")
    page = staff.get(f"/admin/relayers/relayer/{idle.pk}/change/")
    assert "It has not sent a transaction yet." in page.text
    # Who may not view transactions.
    assert "relayer_lane" not in staff_who_may(client, "view_relayer").get(url).context
