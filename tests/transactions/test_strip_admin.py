"""Why a lane is stuck, in the admin, and who frees it: what each action costs, changes, and is refused for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from relayer_service.background.tasks import queue
from relayer_service.models import AuditEntry
from relayers.models import Relayer
from tests.chain.answering_node import node_answering
from tests.notifications.admin_pages import buttons, staff_who_may, told
from tests.relayers import factories as relayer_factories
from tests.transactions import factories, lane_values
from transactions.lanes.prices.planning import Wait, plan
from transactions.models import ChainWatch, Lane, Status, Transaction
from transactions.settlement.nonces import holds

pytestmark = pytest.mark.django_db

TRANSACTIONS, LANES = "/admin/transactions/transaction/", "/admin/transactions/lane/"
GWEI = 10**9
HELD = {"since": "2026-03-04T12:00:00.000000Z", "details": "Key rotation"}


@pytest.fixture(autouse=True)
def enabled(settings: Any) -> None:
    settings.EXTENSIONS = ["transactions"]


def create_lane(**changes: Any) -> Lane:
    """Return a lane whose next nonce of the chain is 42."""
    watch = ChainWatch.objects.create(chain_id=11155111, nodes_digest="x", head_number=1_000)
    relayer = changes.pop("relayer", None) or relayer_factories.relayer(policies={"gas_price_cap": 50 * GWEI})
    values = {"first_nonce": 40, "chain_nonce": 42, "next_nonce": 44, "watch": watch, "head_since": minutes_ago(20)}
    return factories.lane(relayer, **(values | changes))


def minutes_ago(minutes: int) -> Any:
    return timezone.now() - timedelta(minutes=minutes)


def in_flight(lane: Lane, nonce: int, **changes: Any) -> Transaction:
    row = factories.transaction(lane, nonce=nonce, status=Status.SUBMITTED, sent_at=minutes_ago(20))
    values = {
        "raw": b"\2",
        "max_fee_text": str(20 * GWEI),
        "max_priority_fee_text": str(GWEI),
        "max_cost_text": str(21_000 * 20 * GWEI),
        "broadcasts": 9,
        "outcome": "accepted",
    }
    dates = ("signed_at", "first_broadcast_at", "last_broadcast_at", "accepted_at")
    factories.attempt(row, **(values | dict.fromkeys(dates, minutes_ago(15)) | changes))
    return row


def stuck_lane(**changes: Any) -> tuple[Lane, Transaction]:
    """Return a lane whose next nonce has waited for too long, with another one behind it."""
    lane = create_lane(**changes)
    row = in_flight(lane, 42)
    in_flight(lane, 43)
    return lane, row


def lane_page(lane: Lane) -> str:
    return f"{LANES}{lane.pk}/change/"


def relayer_page(lane: Lane) -> str:
    assert lane.relayer
    return f"/admin/relayers/relayer/{lane.relayer.pk}/change/"


def freer(client: Client) -> Client:
    names = ("transaction", "lane")
    permissions = [f"{verb}_{name}" for verb in ("view", "change") for name in names]
    return staff_who_may(client, "view_relayer", *permissions)


def cells(page: Any) -> list[tuple[int | None, str, str]]:
    """Return the nonce and the state of each cell, and the text of its button."""
    found = page.context["strip"]["cells"]
    return [(cell["nonce"], cell["state"], (cell["button"] or {}).get("text", "")) for cell in found]


def audited(row: Any) -> list[tuple[str, str]]:
    return list(AuditEntry.objects.for_row(row).order_by("id").values_list("actor", "reason"))


@pytest.mark.parametrize("page", [lane_page, relayer_page])
def test_the_strip_shows_each_nonce_and_one_recommendation(client: Client, page: Any) -> None:
    lane, row = stuck_lane()
    factories.transaction(lane, nonce=41, status=Status.FAILED, finished_at=minutes_ago(30))
    factories.transaction(lane, identifier="waits")
    found = freer(client).get(page(lane))
    assert cells(found) == [
        (40, "elsewhere", "Hold"),
        (41, "mined", ""),
        (42, "in_flight", "Speed up"),
        (43, "in_flight", ""),
        (None, "waiting", ""),
    ]
    strip = found.context["strip"]
    assert strip["headline"].startswith("The chain has expected nonce 42 for 20 minutes. In the mempool")
    assert strip["headline"].endswith("Behind it: 1 in flight and 1 queued. It was broadcast 9 times at this price.")
    facts = strip["cells"][2]["facts"]
    assert (facts["Status"], facts["Price"]) == ("Submitted", "20 gwei")
    assert facts["Last answer"].startswith("accepted, ")
    origin = "relayer" if page is relayer_page else "lane"
    assert strip["cells"][2]["button"]["url"] == f"{TRANSACTIONS}{row.pk}/speed_up/?from={origin}"


def test_who_may_only_view_sees_recommendations_without_buttons(client: Client) -> None:
    lane, row = stuck_lane()
    staff = staff_who_may(client, "view_lane", "view_transaction", "view_relayer")
    page = staff.get(lane_page(lane))
    assert (page.context["strip"]["cells"][2]["button"]["text"], buttons(page)) == ("Speed up", [])
    assert "/speed_up/" not in page.content.decode()
    assert buttons(staff.get(f"{TRANSACTIONS}{row.pk}/change/")) == []
    paths = [f"{TRANSACTIONS}{row.pk}/{name}/" for name in ("cancel", "speed_up", "resend")]
    for path in [*paths, f"{LANES}{lane.pk}/fill_hole/", f"{LANES}{lane.pk}/resend_all/"]:
        assert (staff.get(path).status_code, staff.post(path, {"nonce": "42"}).status_code) == (403, 403)
    row.refresh_from_db()
    assert (row.requested_action, AuditEntry.objects.exists()) == ("", False)


def test_who_may_not_view_transactions_sees_no_strip(client: Client) -> None:
    lane, _ = stuck_lane()
    staff = staff_who_may(client, "view_lane", "view_relayer")
    for page in (lane_page(lane), relayer_page(lane)):
        assert "strip" not in staff.get(page).context
        assert staff.get(page.replace("/change/", "/strip/")).status_code == 403


def test_a_relayer_without_a_lane_has_nothing_that_is_stuck(admin_client: Client) -> None:
    relayer = relayer_factories.relayer()
    page = admin_client.get(f"/admin/relayers/relayer/{relayer.pk}/change/")
    assert "Why is it stuck?" not in page.content.decode()
    assert admin_client.get(f"/admin/relayers/relayer/{relayer.pk}/strip/").content == b""


def test_the_fragment_shows_prices_against_the_market(admin_client: Client) -> None:
    # The base fee of the node is 100 wei.
    with node_answering() as node:
        urls = [{"url": node.url, "weight": 100}]
        lane = create_lane(relayer=relayer_factories.relayer(network="hardhat", rpc_urls=urls))
        row = in_flight(lane, 42, max_fee_text="90", max_priority_fee_text="1", broadcasts=1)
        in_flight(lane, 43)
        before = admin_client.get(lane_page(lane))
        found = admin_client.get(f"{LANES}{lane.pk}/strip/")
    # Without the market, it may have been lost; with it, the price is the reason.
    assert [cell[2] for cell in cells(before)][2:] == ["Resend", ""]
    assert [cell[2] for cell in cells(found)][2:] == ["Speed up", ""]
    price = found.context["strip"]["cells"][2]["facts"]["Price"]
    assert price.startswith("0.00000009 gwei, market 0.001 gwei")
    assert "below base fee" in price
    row.refresh_from_db()
    assert row.requested_action == ""


def test_the_fragment_of_a_lane_whose_nodes_fail_has_no_market(admin_client: Client) -> None:
    urls = [{"url": "http://127.0.0.1:1", "weight": 100}]
    lane = create_lane(relayer=relayer_factories.relayer(network="hardhat", rpc_urls=urls))
    in_flight(lane, 42)
    found = admin_client.get(f"{LANES}{lane.pk}/strip/")
    assert found.context["strip"]["cells"][2]["facts"]["Price"] == "20 gwei"


def test_a_speed_up_says_what_it_costs_is_audited_and_wakes_the_lane(
    client: Client, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    lane, row = stuck_lane()
    staff, path = freer(client), f"{TRANSACTIONS}{row.pk}/speed_up/?from=relayer"
    asks = staff.get(path)
    # 21,000 gas at the cap of 50 gwei.
    assert asks.context["texts"][1] == (
        "The transaction, or the no-op that replaces it, can cost at most 0.00105 ETH, including its value."
    )
    row.refresh_from_db()
    assert row.requested_action == ""
    with django_capture_on_commit_callbacks(execute=True):
        done = staff.post(path)
    assert done.headers["Location"] == relayer_page(lane)
    assert told(staff.get(relayer_page(lane))) == ["The higher price is requested."]
    row.refresh_from_db()
    assert row.requested_action == "speed_up"
    assert audited(row) == [("vera", "Higher price requested by vera.")]
    assert [(task.name, task.args) for task in queue.pending()] == [("wake_lane", (lane.pk,))]


def test_a_request_without_a_nonce_is_canceled_at_once(client: Client) -> None:
    row = factories.transaction(create_lane())
    staff = freer(client)
    asks = staff.get(f"{TRANSACTIONS}{row.pk}/cancel/")
    assert asks.context["texts"][1] == "It costs nothing."
    done = staff.post(f"{TRANSACTIONS}{row.pk}/cancel/", follow=True)
    assert told(done) == ["The cancellation is requested."]
    row.refresh_from_db()
    assert (row.status, audited(row)) == ("canceled", [("vera", "Cancellation requested by vera.")])
    assert buttons(done) == []


def test_a_transaction_in_flight_is_canceled_by_a_no_op_of_the_lane(client: Client) -> None:
    _, row = stuck_lane()
    staff = freer(client)
    assert buttons(staff.get(f"{TRANSACTIONS}{row.pk}/change/")) == ["Speed up", "Resend", "Cancel"]
    staff.post(f"{TRANSACTIONS}{row.pk}/cancel/")
    row.refresh_from_db()
    assert (row.status, row.requested_action) == ("submitted", "cancel")


def test_an_action_is_refused_with_the_reason(client: Client) -> None:
    _, row = stuck_lane()
    Transaction.objects.filter(pk=row.pk).update(**factories.final("failed"))
    staff = freer(client)
    for name, button in (("cancel", "Cancel"), ("speed_up", "Speed up"), ("resend", "Resend")):
        for request in (staff.get, staff.post):
            done = request(f"{TRANSACTIONS}{row.pk}/{name}/", follow=True)
            assert told(done) == [f"{button} is not possible. Its status failed is final."]
    assert audited(row) == []
    assert buttons(done) == []


def test_what_a_policy_forbids_is_refused_after_the_confirmation(client: Client) -> None:
    lane, row = stuck_lane()
    Relayer.objects.update(policies={"whitelist_receivers": [lane.address]})
    (text,) = told(freer(client).post(f"{TRANSACTIONS}{row.pk}/speed_up/", follow=True))
    assert text.startswith("Speed up is not possible. ")
    assert "whitelist_receivers" in text
    row.refresh_from_db()
    assert (row.requested_action, audited(row)) == ("", [])


def test_the_relayer_of_a_stuck_transaction_is_paused(client: Client) -> None:
    lane, row = stuck_lane()
    assert lane.relayer
    relayer_factories.set_paused(lane.relayer, True)
    staff = freer(client)
    # A higher price is refused, so a cancellation is the best.
    assert cells(staff.get(lane_page(lane)))[2] == (42, "in_flight", "Cancel")
    assert buttons(staff.get(f"{TRANSACTIONS}{row.pk}/change/")) == ["Resend", "Cancel"]


def test_all_transactions_in_flight_are_broadcast_again(client: Client) -> None:
    lane, row = stuck_lane()
    found = in_flight(lane, 44, raw=b"")
    staff = freer(client)
    assert staff.get(f"{LANES}{lane.pk}/resend_all/").status_code == 200
    done = staff.post(f"{LANES}{lane.pk}/resend_all/", follow=True)
    assert told(done) == [
        "Broadcast again: 2 transactions. Skipped: 1 (It was found on the chain: its bytes are unknown.)"
    ]
    row.refresh_from_db()
    assert row.last_attempt
    assert row.last_attempt.last_broadcast_at is None
    assert (audited(row), audited(found)) == ([("vera", "Broadcast requested by vera.")], [])


def lane_with_hole(**changes: Any) -> Lane:
    lane = create_lane(**changes)
    in_flight(lane, 43)
    return lane


def test_a_hole_is_filled_in_the_next_turn(
    client: Client, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    lane = lane_with_hole(gap_block=999)
    staff, path = freer(client), f"{LANES}{lane.pk}/fill_hole/"
    page = staff.get(lane_page(lane))
    assert (cells(page)[2], buttons(page)) == ((42, "hole", "Fill hole"), ["Hold", "Fill hole", "Resend all"])
    assert page.context["strip"]["headline"] == (
        "The chain expects nonce 42, which no transaction has: 1 transaction in flight cannot be mined before it is "
        "used. A no-op uses the nonce, so that those above it can be mined."
    )
    asks = staff.get(path)
    # 21,000 gas at two steps above the cap of 50 gwei.
    assert asks.context["texts"][1] == "It can cost at most 0.00132890625 ETH, with the gas of a transfer."
    assert holds.noops_due(lane) == []
    with django_capture_on_commit_callbacks(execute=True):
        done = staff.post(path, {"nonce": "42", "reason": "Customers wait"}, follow=True)
    assert told(done) == ["The lane fills the hole at nonce 42 in its next turn."]
    lane.refresh_from_db()
    assert holds.noops_due(lane) == [42]
    assert audited(lane) == [("vera", "Filled the hole at nonce 42. Customers wait")]
    assert [(task.name, task.args) for task in queue.pending()] == [("wake_lane", (lane.pk,))]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"holds": {"operator": HELD}, "held_since": timezone.now()}, "The lane is held."),
        ({"waiting": "nodes"}, "No node answers, so that the nonce may be used already."),
        ({"chain_nonce": 43}, "The chain expects nonce 43."),
        ({"watch": None}, "The chain was not read yet."),
        ({"relayer": None}, "The lane has no relayer whose signer could sign."),
    ],
)
def test_a_hole_is_not_filled_where_the_rules_forbid_it(client: Client, changes: Any, expected: str) -> None:
    lane = lane_with_hole()
    Lane.objects.filter(pk=lane.pk).update(**changes)
    staff = freer(client)
    done = staff.post(f"{LANES}{lane.pk}/fill_hole/", {"nonce": "42"}, follow=True)
    assert told(done) == [f"Not filled. {expected}"]
    assert "Fill hole" not in buttons(done)
    lane.refresh_from_db()
    assert (lane.gap_block, audited(lane)) == (None, [])


def test_a_nonce_that_a_transaction_has_is_no_hole(client: Client) -> None:
    lane, _ = stuck_lane()
    staff = freer(client)
    assert told(staff.get(f"{LANES}{lane.pk}/fill_hole/", follow=True)) == ["Not filled. A transaction has nonce 42."]
    Transaction.objects.all().delete()
    refused = ["Not filled. No transaction with a higher nonce is in flight."]
    assert told(staff.post(f"{LANES}{lane.pk}/fill_hole/", {"nonce": "42"}, follow=True)) == refused
    assert told(staff.post(f"{LANES}{lane.pk}/fill_hole/", follow=True)) == ["Not filled. No nonce was given."]


def test_a_hold_is_ended_from_the_page_of_the_relayer(client: Client) -> None:
    lane = create_lane(holds={"operator": HELD}, held_since=timezone.now())
    factories.transaction(lane)
    factories.transaction(lane)
    staff = freer(client)
    page = staff.get(relayer_page(lane))
    # Once, however many requests wait.
    assert [cell[2] for cell in cells(page) if cell[1] == "waiting"] == ["Release", ""]
    assert page.context["strip"]["headline"] == "Held by staff: Key rotation. 2 requests wait."
    url = page.context["strip"]["main"]["url"]
    done = staff.post(url, {"holds": ["operator"], "reason": "Rotated"})
    assert done.headers["Location"] == relayer_page(lane)
    lane.refresh_from_db()
    assert lane.holds == {}


def test_a_top_up_names_the_account_and_what_is_missing(client: Client) -> None:
    (wait,) = plan(
        lane_values.network(),
        {},
        [lane_values.row(value_text=str(10**18))],
        lane_values.found(),
        lane_values.account(balance=10**17),
    )
    assert isinstance(wait, Wait)
    assert wait.missing
    details, amount = wait.missing
    waiting = {"waiting": "funds", "waiting_since": minutes_ago(2), "waiting_details": details}
    lane = create_lane(missing_text=str(amount), **waiting)
    factories.transaction(lane, status_reason=wait.reason, reason_code="funds")
    page = freer(client).get(lane_page(lane))
    assert cells(page)[-1] == (None, "waiting", "Top up")
    top_up = page.context["strip"]["top_up"]
    assert (top_up["address"], top_up["missing"]) == (lane.address, details.partition(" are missing")[0])
    assert top_up["missing"].startswith("0.900")
    assert top_up["missing"].endswith(" ETH")


def test_what_transactions_in_flight_lack_is_computed_from_the_balance(client: Client) -> None:
    relayer = relayer_factories.relayer(balance_text="1000", balance_at=timezone.now())
    lane = create_lane(relayer=relayer)
    in_flight(lane, 42, outcome="insufficient funds", max_cost_text=str(10**18 + 1000))
    page = freer(client).get(lane_page(lane))
    assert (cells(page)[2][2], page.context["strip"]["top_up"]["missing"]) == ("Top up", "1 ETH")


def test_a_page_with_1000_requests_makes_as_many_queries_as_one_with_few(admin_client: Client) -> None:
    lane, _ = stuck_lane(next_nonce=100)
    factories.transaction(lane)
    counted: dict[str, list[int]] = {lane_page(lane): [], relayer_page(lane): []}
    for count in (0, 999):
        rows = [
            Transaction(lane=lane, relayer=lane.relayer, to=factories.RECEIVER, valid_until=factories.VALID_UNTIL)
            for _ in range(count)
        ]
        Transaction.objects.bulk_create(rows)
        for nonce in range(44, 60) if count else ():
            in_flight(lane, nonce)
        for page, numbers in counted.items():
            admin_client.get(page)
            with CaptureQueriesContext(connection) as queries:
                found = admin_client.get(page)
            numbers.append(len(queries))
    assert {page: numbers[0] for page, numbers in counted.items()} == {
        page: numbers[1] for page, numbers in counted.items()
    }
    strip = found.context["strip"]
    assert (len(strip["cells"]), strip["more_waiting"]) == (23, "and 995 more")
    assert strip["more_nonces"] == "and 42 more"
