"""Why a lane is stuck, in the admin, and who frees it: what each action costs, changes, and is refused for."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.html import strip_tags
from pytest_django import DjangoCaptureOnCommitCallbacks
from rest_framework.exceptions import ValidationError

from relayer_service.background.tasks import queue
from relayer_service.models import AuditEntry
from relayers.models import Relayer
from tests.chain.answering_node import HISTORY, node_answering
from tests.notifications.admin_pages import buttons, staff_who_may, told
from tests.relayers import factories as relayer_factories
from tests.transactions import factories, lane_values
from transactions.console.prices import merged
from transactions.lanes.prices.planning import Wait, plan
from transactions.models import ChainWatch, Lane, Status, Transaction
from transactions.requests import actions
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


def prices(page: Any, name: str = "prices") -> list[list[str]]:
    """Return the rows of a table of prices, without markup."""
    return [[re.sub("<[^>]*>", "", cell) for cell in row] for row in page.context[name].rows]


def relayer_page(lane: Lane) -> str:
    assert lane.relayer
    return f"/admin/relayers/relayer/{lane.relayer.pk}/change/"


def freer(client: Client) -> Client:
    names = ("transaction", "lane")
    permissions = [f"{verb}_{name}" for verb in ("view", "change") for name in names]
    return staff_who_may(client, "view_relayer", *permissions)


def cells(page: Any) -> list[tuple[int | None, str, str]]:
    """Return the nonce and the state of each cell, and the text of its button."""
    found = page.context["stuck"]["cells"]
    return [(cell["nonce"], cell["state"], (cell["button"] or {}).get("text", "")) for cell in found]


def audited(row: Any) -> list[tuple[str, str]]:
    return list(AuditEntry.objects.for_row(row).order_by("id").values_list("actor", "reason"))


def test_who_may_only_view_sees_recommendations_without_buttons(client: Client) -> None:
    lane, row = stuck_lane()
    staff = staff_who_may(client, "view_lane", "view_transaction", "view_relayer")
    page = staff.get(lane_page(lane))
    assert (page.context["stuck"]["cells"][2]["button"]["text"], buttons(page)) == ("Speed up", [])
    assert "/speed_up/" not in page.content.decode()
    assert buttons(staff.get(f"{TRANSACTIONS}{row.pk}/change/")) == []
    paths = [f"{TRANSACTIONS}{row.pk}/{name}/" for name in ("cancel", "speed_up", "resend")]
    for path in [*paths, f"{LANES}{lane.pk}/fill_hole/", f"{LANES}{lane.pk}/resend_all/"]:
        assert (staff.get(path).status_code, staff.post(path, {"nonce": "42"}).status_code) == (403, 403)
    row.refresh_from_db()
    assert (row.requested_action, AuditEntry.objects.exists()) == ("", False)
    # Who may not view transactions sees no strip.
    staff = staff_who_may(client, "view_lane", "view_relayer")
    for each in (lane_page(lane), relayer_page(lane)):
        assert "stuck" not in staff.get(each).context
        assert staff.get(each.replace("/change/", "/strip/")).status_code == 403


def test_the_fragment_shows_prices_against_the_market(admin_client: Client) -> None:
    # The base fee of the node is 100 wei.
    rewards = {"reward": [[hex(number * GWEI) for number in range(1, 8)]]}
    with node_answering(eth_feeHistory={"result": HISTORY | rewards}) as node:
        urls = [{"url": node.url, "weight": 100}]
        lane = create_lane(relayer=relayer_factories.relayer(network="hardhat", rpc_urls=urls))
        row = in_flight(lane, 42, max_fee_text="90", max_priority_fee_text="1", max_cost_text="1890000", broadcasts=1)
        in_flight(lane, 43)
        before = admin_client.get(lane_page(lane))
        found = admin_client.get(f"{LANES}{lane.pk}/strip/")
        tables = {}
        for name in ("speed_up", "cancel"):
            asks = admin_client.get(f"{TRANSACTIONS}{row.pk}/{name}/")
            tables[name] = prices(admin_client.get(asks.context["prices_url"]), "table")
    # Without the market, it may have been lost; with it, the price is the reason.
    assert [cell[2] for cell in cells(before)][2:] == ["Resend", ""]
    assert [cell[2] for cell in cells(found)][2:] == ["Speed up", ""]
    price = found.context["stuck"]["cells"][2]["facts"]["Price"]
    assert price.startswith("90 wei, market 6 gwei")
    assert "below base fee" in price
    now = ["Now", "at most 90 wei, priority 1 wei", "below the base fee", "1,890,000 wei"]
    market = ["Market", "6 gwei", "", ""]
    new = ["New", "at most 6 gwei, priority 6 gwei", "0.000126 ETH", "0.000126 ETH"]
    assert tables["cancel"] == [now, market, new]
    tips = {"safeLow": 1, "average": 3, "fast": 6, "fastest": 7}
    assert tables["speed_up"][2:] == [
        [f"New, {speed}", f"at most {tip} gwei, priority {tip} gwei", *[f"{cost} ETH"] * 2]
        for (speed, tip), cost in zip(tips.items(), ("0.000021", "0.000063", "0.000126", "0.000147"), strict=True)
    ]
    row.refresh_from_db()
    assert row.requested_action == ""
    # Nodes that fail.
    assert lane.relayer
    lane.relayer.set_rpc_urls([{"url": "http://127.0.0.1:1", "weight": 100}])
    lane.relayer.save()
    found = admin_client.get(f"{LANES}{lane.pk}/strip/")
    assert found.context["stuck"]["cells"][2]["facts"]["Price"] == "90 wei"
    idle = relayer_factories.relayer(identifier="idle", address=factories.RECEIVER)
    assert admin_client.get(f"/admin/relayers/relayer/{idle.pk}/strip/").content == b""


def test_speeds_of_equal_prices_are_one_row() -> None:
    rows = [["safeLow", "1", "2"], ["average", "1", "2"], ["fast", "3", "4"], ["fastest", "3", "5"]]
    assert [*merged(rows)] == [
        ["New, safeLow or average", "1", "2"],
        ["New, fast", "3", "4"],
        ["New, fastest", "3", "5"],
    ]
    assert [*merged(rows[:2])] == [["New", "1", "2"]]


def test_a_speed_up_is_explained_audited_and_wakes_the_lane(
    client: Client, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    lane, row = stuck_lane()
    staff, path = freer(client), f"{TRANSACTIONS}{row.pk}/speed_up/?from=relayer"
    asks = staff.get(path)
    assert [strip_tags(text) for text in asks.context["texts"]] == [
        f"{row}: Nonce 42, 0 ETH to 0x7099…dc79C8",
        (
            "The same transaction is sent again at a higher price, and executed at most once. It can cost at most "
            "0.00105 ETH, including its value, if its price is raised again up to the limit of its policies."
        ),
    ]
    resend = strip_tags(staff.get(f"{TRANSACTIONS}{row.pk}/resend/").context["texts"][1])
    assert resend.endswith("executed at most once. It can cost at most 0.00042 ETH, including its value.")
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


def test_the_price_of_a_speed_up_is_chosen_within_the_cap_and_confirmed_as_it_was_shown(client: Client) -> None:
    _, row = stuck_lane()
    staff, path = freer(client), f"{TRANSACTIONS}{row.pk}/speed_up/"
    asks = staff.get(path)
    assert prices(asks) == [["Now", "at most 20 gwei, priority 1 gwei", "unknown", "0.00042 ETH"]]
    assert asks.context["form"].fields["max_fee_per_gas"].help_text == (
        "At least 22.5 gwei, at most 50 gwei. Used exactly, in place of a speed: it is not raised. For example "
        "30 gwei; without a unit, in wei."
    )
    sent = asks.context["hidden"] | {"speed": "", "reason": "Late"}
    too_low = "must be at least 22.5 gwei, to replace the transaction in flight"
    unit = "must be a whole number of wei, or an amount with its unit, for example 0.5 ETH or 30 gwei"
    for price, errors in (
        ({}, {"speed": ["Choose a speed, or enter a price."]}),
        ({"max_fee_per_gas": "30.5"}, {"max_fee_per_gas": [unit]}),
        ({"max_fee_per_gas": "30.5", "max_priority_fee_per_gas": "2 gwei"}, {"max_fee_per_gas": [unit]}),
        ({"max_fee_per_gas": "30 gwei"}, {"max_priority_fee_per_gas": ["required with max_fee_per_gas"]}),
        (
            {"max_fee_per_gas": "0.0000000224 eth", "max_priority_fee_per_gas": "2000000000"},
            {"max_fee_per_gas": [too_low]},
        ),
        (
            {"max_fee_per_gas": "50.000000001 gwei", "max_priority_fee_per_gas": "2 gwei"},
            {"max_fee_per_gas": ["must be from 22.5 gwei to 50 gwei"]},
        ),
    ):
        assert staff.post(path, sent | price).context["form"].errors == errors
    sent |= {"max_fee_per_gas": "30 gwei", "max_priority_fee_per_gas": "2 gwei"}
    # Its costs are shown first.
    asks = staff.post(path, sent)
    not_sent = ["Not sent yet: check what your price costs, and confirm."]
    assert (told(asks), asks.context["button"]) == (not_sent, "Confirm")
    assert prices(asks)[1:] == [["New, as entered", "at most 30 gwei, priority 2 gwei", "unknown", "0.00063 ETH"]]
    Transaction.objects.filter(pk=row.pk).update(version=9)
    asks = staff.post(path, sent | asks.context["hidden"])
    assert told(asks) == [
        "Speed up is not possible. It has changed since this page was opened: check the prices again."
    ]
    assert asks.context["hidden"] == {"version": 9, "shown": f"{30 * GWEI} {2 * GWEI}"}
    done = staff.post(path, sent | asks.context["hidden"], follow=True)
    assert told(done) == ["The higher price is requested."]
    row.refresh_from_db()
    chosen = (row.max_fee_text, row.max_priority_fee_text)
    assert (row.requested_action, *chosen) == ("speed_up", str(30 * GWEI), str(2 * GWEI))
    assert audited(row) == [("vera", "Higher price requested by vera: Late")]


def test_the_price_of_a_no_op_is_chosen_within_the_cap(client: Client) -> None:
    _, row = stuck_lane()
    staff, path = freer(client), f"{TRANSACTIONS}{row.pk}/cancel/"
    asks = staff.get(path)
    assert asks.context["form"].fields["noop_price"].label == "Price of the no-op"
    sent = asks.context["hidden"]
    for price in ("51 gwei", "22 gwei"):
        errors = staff.post(path, sent | {"noop_price": price}).context["form"].errors
        assert errors == {"noop_price": ["must be from 22.5 gwei to 50 gwei"]}
    with pytest.raises(ValidationError, match="to 50 gwei, to replace the transaction in flight within the cap"):
        actions.cancel(row.pk, by="vera", noop_price=51 * GWEI)
    asks = staff.post(path, sent | {"noop_price": "40 gwei"})
    assert asks.context["button"] == "Confirm"
    assert asks.context["hidden"] == sent | {"shown": str(40 * GWEI)}
    done = staff.post(path, asks.context["hidden"] | {"noop_price": "40 gwei"}, follow=True)
    assert told(done) == ["The cancellation is requested."]
    row.refresh_from_db()
    assert (row.requested_action, row.noop_price_text) == ("cancel", str(40 * GWEI))


def test_an_action_is_refused_with_the_reason(client: Client) -> None:
    lane, row = stuck_lane()
    staff = freer(client)
    relayer = Relayer.objects.get()
    Relayer.objects.update(policies={"whitelist_receivers": [lane.address]})
    (text,) = told(staff.post(f"{TRANSACTIONS}{row.pk}/speed_up/", follow=True))
    assert text.startswith("Speed up is not possible. ")
    assert "whitelist_receivers" in text
    Relayer.objects.update(policies=relayer.policies)
    Transaction.objects.filter(pk=row.pk).update(**factories.final("failed"))
    for name, button in (("cancel", "Cancel"), ("speed_up", "Speed up"), ("resend", "Resend")):
        for request in (staff.get, staff.post):
            done = request(f"{TRANSACTIONS}{row.pk}/{name}/", follow=True)
            assert told(done) == [f"{button} is not possible. Its status failed is final."]
    row.refresh_from_db()
    assert (row.requested_action, audited(row), buttons(done)) == ("", [], [])


def test_a_request_is_canceled_at_once_or_by_a_no_op_of_the_lane(client: Client) -> None:
    lane, sent = stuck_lane()
    row, staff = factories.transaction(lane), freer(client)
    asks = staff.get(f"{TRANSACTIONS}{row.pk}/cancel/")
    assert asks.context["texts"][1] == "It is canceled at once and costs nothing: it has no nonce yet."
    done = staff.post(f"{TRANSACTIONS}{row.pk}/cancel/", follow=True)
    assert told(done) == ["The cancellation is requested."]
    row.refresh_from_db()
    assert (row.status, audited(row)) == ("canceled", [("vera", "Cancellation requested by vera.")])
    assert buttons(done) == []
    assert buttons(staff.get(f"{TRANSACTIONS}{sent.pk}/change/")) == ["Speed up", "Resend", "Cancel"]
    (_, text) = staff.get(f"{TRANSACTIONS}{sent.pk}/cancel/").context["texts"]
    assert strip_tags(text) == (
        "A no-op with the same nonce and a higher price is sent. The one that is mined first counts: the transaction "
        "may still be executed. It can cost at most 0.0013289 ETH, including its value, if its price is raised "
        "again up to the limit of its policies."
    )
    staff.post(f"{TRANSACTIONS}{sent.pk}/cancel/")
    sent.refresh_from_db()
    assert (sent.status, sent.requested_action) == ("submitted", "cancel")


def test_a_hole_is_not_filled_where_the_rules_forbid_it(client: Client) -> None:
    lane, staff = create_lane(), freer(client)
    row = in_flight(lane, 43)
    path = f"{LANES}{lane.pk}/fill_hole/"
    columns: dict[str, Any] = {**Lane.objects.values().get()}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"holds": {"operator": HELD}, "held_since": timezone.now()}, "The lane is held."),
        ({"waiting": "nodes"}, "No node answers, so that the nonce may be used already."),
        ({"chain_nonce": 43}, "The chain expects nonce 43."),
        ({"watch_id": None}, "The chain was not read yet."),
        ({"relayer_id": None}, "The lane has no relayer whose signer could sign."),
    ]
    for changes, expected in cases:
        Lane.objects.update(**columns | changes)
        done = staff.post(path, {"nonce": "42"}, follow=True)
        assert told(done) == [f"Not filled. {expected}"]
        assert "Fill hole" not in buttons(done)
    Lane.objects.update(**columns)
    assert told(staff.post(path, follow=True)) == ["Not filled. No nonce was given."]
    used = in_flight(lane, 42)
    assert told(staff.get(path, follow=True)) == ["Not filled. A transaction has nonce 42."]
    Transaction.objects.filter(pk__in=[row.pk, used.pk]).delete()
    refused = ["Not filled. No transaction with a higher nonce is in flight."]
    assert told(staff.post(path, {"nonce": "42"}, follow=True)) == refused
    lane.refresh_from_db()
    assert (lane.gap_block, audited(lane)) == (None, [])


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


def test_a_hole_is_filled_in_the_next_turn(
    client: Client, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    lane = create_lane(gap_block=999)
    in_flight(lane, 43)
    staff, path = freer(client), f"{LANES}{lane.pk}/fill_hole/"
    page = staff.get(lane_page(lane))
    assert (cells(page)[2], buttons(page)) == ((42, "gap", "Fill hole"), ["Hold", "Fill hole", "Resend all"])
    assert page.context["stuck"]["headline"] == (
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


def test_a_hold_is_ended_from_the_page_of_the_relayer(client: Client) -> None:
    lane = create_lane(holds={"operator": HELD}, held_since=timezone.now())
    factories.transaction(lane)
    factories.transaction(lane)
    staff = freer(client)
    page = staff.get(relayer_page(lane))
    # Once, however many requests wait.
    assert [cell[2] for cell in cells(page) if cell[1] == "waiting"] == ["Release", ""]
    assert "Why is it stuck?" in page.content.decode()
    assert page.context["stuck"]["headline"] == "Held by staff: Key rotation. 2 requests wait."
    url = page.context["stuck"]["main"]["url"]
    done = staff.post(url, {"holds": ["operator"], "reason": "Rotated"})
    assert done.headers["Location"] == relayer_page(lane)
    lane.refresh_from_db()
    assert lane.holds == {}
    Transaction.objects.all().delete()
    Lane.objects.update(chain_nonce=lane.next_nonce)
    assert "Why is it stuck?" not in staff.get(relayer_page(lane)).content.decode()


def test_a_top_up_names_the_account_and_what_is_missing(client: Client) -> None:
    rows, account = [lane_values.row(value_text=str(10**18))], lane_values.account(balance=10**17)
    (wait,) = plan(lane_values.context(), rows, account)
    assert isinstance(wait, Wait)
    assert wait.missing
    details, amount, _ = wait.missing
    waiting = {"waiting": "funds", "waiting_since": minutes_ago(2), "waiting_details": details}
    relayer = relayer_factories.relayer(balance_text=str(10**17 + 1), balance_at=timezone.now())
    lane, staff = create_lane(missing_text=str(amount), relayer=relayer, **waiting), freer(client)
    factories.transaction(lane, status_reason=wait.reason, reason_code="funds")
    page = staff.get(lane_page(lane))
    assert cells(page)[-1] == (None, "waiting", "Top up")
    top_up = page.context["stuck"]["top_up"]
    assert (top_up["address"], top_up["missing"]) == (lane.address, details.partition(" missing")[0])
    assert top_up["missing"].startswith("0.900")
    assert top_up["missing"].endswith(" ETH")
    assert top_up["balance"].startswith('<span class="amount" title="0.100000000000000001 ETH">0.1 ETH</span>, read ')
    # What transactions in flight lack is computed from the balance.
    Lane.objects.update(waiting="", missing_text="")
    in_flight(lane, 42, outcome="insufficient funds", max_cost_text=str(11 * 10**17 + 1))
    page = staff.get(lane_page(lane))
    assert (cells(page)[2][2], page.context["stuck"]["top_up"]["missing"]) == ("Top up", "1 ETH")


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
    stuck = found.context["stuck"]
    assert (len(stuck["cells"]), stuck["more_waiting"]) == (23, "and 995 more")
    assert stuck["more_nonces"] == "and 42 more"


def test_the_strip_shows_each_nonce_and_one_recommendation(client: Client) -> None:
    lane, row = stuck_lane()
    factories.transaction(lane, nonce=41, status=Status.FAILED, finished_at=minutes_ago(30))
    factories.transaction(lane, identifier="waits")
    staff = freer(client)
    for origin, page in (("lane", lane_page(lane)), ("relayer", relayer_page(lane))):
        found = staff.get(page)
        assert cells(found) == [
            (40, "elsewhere", "Hold"),
            (41, "mined", ""),
            (42, "in_flight", "Speed up"),
            (43, "in_flight", ""),
            (None, "waiting", ""),
        ]
        stuck = found.context["stuck"]
        assert stuck["headline"].startswith("The chain has expected nonce 42 for 20 minutes. In the mempool")
        assert stuck["headline"].endswith(
            "Behind it: 1 in flight and 1 queued. It was broadcast 9 times at this price."
        )
        facts = stuck["cells"][2]["facts"]
        assert (facts["Status"], facts["Price"]) == ("Submitted", "20 gwei")
        assert facts["Last answer"].startswith("accepted, ")
        assert stuck["cells"][2]["button"]["url"] == f"{TRANSACTIONS}{row.pk}/speed_up/?from={origin}"
    assert lane.relayer
    relayer_factories.set_paused(lane.relayer, True)
    # A higher price is refused, so a cancellation is the best.
    assert cells(staff.get(lane_page(lane)))[2] == (42, "in_flight", "Cancel")
    assert buttons(staff.get(f"{TRANSACTIONS}{row.pk}/change/")) == ["Resend", "Cancel"]
