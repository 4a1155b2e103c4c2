"""Transactions in the admin: found, filtered, and followed from accepted to final."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from notifications.delivery.creating import encode_body
from notifications.models import Delivery, Notification
from relayers.models import Relayer
from relayers.models.tags import save_tags
from rpc.models import FeeToken
from tests.notifications.admin_pages import rows, shown, staff_who_may
from tests.relayers import factories as relayer_factories
from tests.rpc.factories import TOKEN
from tests.spending.payloads import ALICE, APPROVE, BOB, MALLORY, TRANSFER, TRANSFER_FROM, call
from tests.transactions import factories
from tests.transactions.plans import walks_the_primary_key
from tokens.writes import issue
from transactions.events import TRANSACTION_SUBMITTED
from transactions.models import Lane, Status, StatusChange, Transaction
from transactions.requests import actions

pytestmark = pytest.mark.django_db

LIST = "/admin/transactions/transaction/"
NOON = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)
GWEI = 10**9
UNVERIFIED = "Transfer 1,000 units of an unverified token"
OTHER = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"


@pytest.fixture
def lane() -> Lane:
    return factories.lane(relayer_factories.relayer())


def sent(lane: Lane, nonce: int, **changes: Any) -> Transaction:
    row = factories.transaction(lane, nonce=nonce, status=Status.SUBMITTED, sent_at=NOON, **changes)
    factories.attempt(row, max_fee_text=str(20 * GWEI), max_priority_fee_text=str(GWEI))
    return row


def confirmed(lane: Lane) -> Transaction:
    """Return a transaction whose price was raised once, in a block."""
    row = sent(lane, 7, identifier="tx-confirmed", value_text=str(5 * 10**17), created_at=NOON)
    factories.attempt(
        row,
        max_fee_text=str(25 * GWEI),
        max_priority_fee_text=str(2 * GWEI),
        broadcasts=3,
        last_broadcast_at=NOON,
        accepted_at=NOON + timedelta(seconds=30),
        outcome="already_known",
        error="already known",
    )
    row.mined_attempt = row.last_attempt
    row.status, row.finished_at, row.block_number, row.succeeded = Status.CONFIRMED, NOON, 7_654_321, True
    row.gas_used, row.effective_gas_price_text = 21_000, str(15 * GWEI)
    row.save()
    return row


def change(row: Transaction) -> str:
    return f"{LIST}{row.pk}/change/"


def found(client: Client, query: str) -> list[str]:
    return [row[0] for row in rows(client.get(f"{LIST}?{query}"))]


def text(page: Any, card: str) -> str:
    """Return the text of a card of a page, without markup."""
    markup = page.content.decode().partition(card)[2].partition("</section>")[0]
    return " ".join(unescape(re.sub("<[^>]*>", " ", markup)).split())


def test_the_list_shows_where_each_request_is_and_why(admin_client: Client, lane: Lane) -> None:
    reason = "Waiting for funds: 0.5 ETH missing."
    waits = {"identifier": "tx-1", "created_at": NOON, "status_reason": reason, "value_text": str(10**18)}
    factories.transaction(lane, **waits)
    sent(lane, 7, identifier="tx-2", created_at=NOON, to="")
    created, to = "2026-03-04 12:00 UTC", "0x7099…dc79C8"
    assert [row[:8] for row in rows(admin_client.get(LIST))] == [
        ["tx-2", "relayer-1", "submitted", "sepolia", "7", "new contract", "0 ETH", "In the mempool."],
        ["tx-1", "relayer-1", "pending", "sepolia", "-", to, "1 ETH", reason],
    ]
    assert {row[8] for row in rows(admin_client.get(LIST))} == {created}


def test_the_palette_describes_a_transaction_without_more_queries(
    admin_client: Client, lane: Lane, settings: Any
) -> None:
    settings.EXTENSIONS = ["transactions"]
    counted = []
    for number, columns in ((1, {"external_id": "order-5"}), (2, {"status": "failed"})):
        factories.transaction(lane, identifier=f"tx-{number}", **columns)
        with CaptureQueriesContext(connection) as queries:
            page = admin_client.get("/admin/search/", {"s": "tx-"}).content.decode()
        counted.append(len(queries))
    assert 'data-description="Transaction, pending, relayer-1, order-5"' in page
    assert 'data-description="Transaction, failed, relayer-1"' in page
    assert counted[0] == counted[1]


def test_each_filter_has_its_own_title(admin_client: Client, lane: Lane) -> None:
    titles = [spec.title for spec in admin_client.get(LIST).context["cl"].filter_specs]
    assert titles[-4:] == ["period created", "day created", "period finished", "day finished"]


def test_rows_are_filtered_by_status_kind_relayer_and_network(admin_client: Client, lane: Lane) -> None:
    relayer = relayer_factories.relayer(identifier="relayer-2", network="mainnet", address=OTHER)
    save_tags({relayer.pk: ["prod"]})
    other = factories.lane(relayer)
    confirmed(lane)
    factories.transaction(lane, identifier="tx-failed", status="failed")
    sent(lane, 8, identifier="tx-gap", kind="gap")
    sent(lane, 9, identifier="tx-external", kind="external")
    sent(other, 7, identifier="tx-other")
    assert lane.relayer
    for query, expected in (
        ("", ["tx-other", "tx-failed", "tx-confirmed"]),
        ("status=failed", ["tx-failed"]),
        ("status=submitted", ["tx-other"]),
        ("status=mined", []),
        ("kind=gap", ["tx-gap"]),
        ("kind=all", ["tx-other", "tx-external", "tx-gap", "tx-failed", "tx-confirmed"]),
        (f"relayer__sequence__exact={lane.relayer.pk}", ["tx-failed", "tx-confirmed"]),
        ("network=mainnet", ["tx-other"]),
        ("tag=prod&tag=none", ["tx-other"]),
        ("tag=none", []),
    ):
        assert found(admin_client, query) == expected, query


def test_rows_are_filtered_by_token_and_by_days(admin_client: Client, lane: Lane) -> None:
    midnight = datetime.combine(timezone.localdate(), datetime.min.time(), UTC)
    for name, hours in (("old", -200), ("yesterday", -2), ("today", 0)):
        ended = {**factories.final("failed"), "finished_at": midnight + timedelta(hours=hours)}
        factories.transaction(lane, identifier=f"tx-{name}", **ended, created_at=midnight + timedelta(hours=hours - 1))
    factories.transaction(lane, identifier="tx-open", requester="ci", created_at=midnight)
    yesterday = f"{midnight - timedelta(days=1):%Y-%m-%d}"
    assert lane.relayer
    for query, expected in (
        ("token=ci", ["tx-open"]),
        ("created=today", ["tx-open"]),
        ("created=yesterday", ["tx-today", "tx-yesterday"]),
        (f"created_at_from={yesterday}&created_at_to={yesterday}", ["tx-today", "tx-yesterday"]),
        ("created=30-days&o=9", ["tx-old", "tx-yesterday", "tx-today", "tx-open"]),
        ("finished=yesterday&status=failed", ["tx-yesterday"]),
        (f"finished=7-days&relayer__sequence__exact={lane.relayer.pk}", ["tx-today", "tx-yesterday"]),
        (f"finished_at_to={yesterday}", ["tx-yesterday", "tx-old"]),
        ("finished_at_to=9999-12-31&created_at_from=0001-01-01", ["tx-today", "tx-yesterday", "tx-old"]),
        ("finished=tomorrow", ["tx-open", "tx-today", "tx-yesterday", "tx-old"]),
    ):
        assert found(admin_client, query) == expected, query


@pytest.mark.parametrize("query", ["", "&status=pending"])
def test_a_page_is_not_read_past_the_rows_of_other_relayers(admin_client: Client, lane: Lane, query: str) -> None:
    factories.transaction(lane, identifier="tx-1")
    assert lane.relayer
    path = f"relayer__sequence__exact={lane.relayer.pk}{query}"
    assert not walks_the_primary_key(lambda: found(admin_client, path) == ["tx-1"])


def test_what_is_known_of_a_transaction_finds_it(admin_client: Client, lane: Lane) -> None:
    other = factories.lane(
        relayer_factories.relayer(identifier="relayer-2", network="mainnet", address=OTHER), epoch=2
    )
    row = confirmed(lane)
    sent(lane, 77, identifier="tx-2")
    sent(other, 7, identifier="tx-3")
    sent(other, 7, identifier="tx-of-a-replaced-chain", epoch=1)
    # An ID may start with digits.
    factories.transaction(lane, identifier="7-up", to=OTHER)
    labels = {"external_id": "invoice-7", "idempotency_key": "Order-7", "metadata": {"shop": "berlin"}}
    factories.transaction(lane, identifier="tx-labelled", **labels)
    factories.transaction(lane, identifier="tx-tokens", to=OTHER, recipient=MALLORY)
    first, second = row.attempts.all()
    for query, expected in (
        (MALLORY.lower(), ["tx-tokens"]),
        (first.hash.upper().replace("X", "x"), ["tx-confirmed"]),
        (second.hash, ["tx-confirmed"]),
        (f"0x{'9' * 64}", []),
        # In the epoch of each lane.
        ("7", ["7-up", "tx-3", "tx-confirmed"]),
        ("99999999999999999999", []),
        ("TX-CON", ["tx-confirmed"]),
        # The newest first.
        (OTHER.lower()[:12], ["tx-tokens", "7-up"]),
        ("INVOICE", ["tx-labelled"]),
        ("order-", ["tx-labelled"]),
        ("shop:berlin", ["tx-labelled"]),
        ("shop:berlin&status=pending", ["tx-labelled"]),
        ("shop:berlin&status=failed", []),
        ("shop:", []),
    ):
        assert found(admin_client, f"q={query}") == expected, query


def test_a_search_with_many_matches_finds_those_of_the_chosen_status(
    admin_client: Client, lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transactions.admin.MANY", 1)
    sent(lane, 7, identifier="tx-1")
    for identifier, status in (("7-a", Status.PENDING), ("7-b", Status.FAILED), ("7-c", Status.PENDING)):
        factories.transaction(lane, identifier=identifier, status=status)
    assert found(admin_client, "q=7&status=failed") == ["7-b"]


def test_the_page_shows_progress_attempts_payload_and_receipt(admin_client: Client, lane: Lane) -> None:
    row = confirmed(lane)
    Transaction.objects.filter(pk=row.pk).update(
        data=b"\x01\x02" * 100,
        idempotency_key="order-5",
        requested_by="Shop",
        external_id="<b>5",
        metadata={"shop": "<i>x", "a": "&"},
    )
    lines = [("", "sent", None), ("sent", "submitted", None), ("submitted", "confirmed", 7_654_321)]
    for version, (before, after, block) in enumerate(lines, 2):
        at = NOON + timedelta(seconds=version)
        StatusChange.objects.create(
            transaction=row, version=version, from_status=before, to_status=after, at=at, block_number=block
        )
    page = admin_client.get(change(row))
    progress = text(page, "Progress")
    assert "2026-03-04 12:00:04 UTC Confirmed : block 7,654,321" in progress
    assert "2026-03-04 12:00:00 UTC Accepted from Shop" in progress
    explorer = "https://sepolia.etherscan.io"
    (second, first) = page.context["signed_attempts"]["rows"]
    assert row.last_attempt
    assert f'href="{explorer}/tx/{row.last_attempt.hash}"' in second[2]
    assert second[:2] + second[3:5] == ["2", "Raise the price", "at most 25 gwei, priority 2 gwei", "21,000"]
    assert second[7] == "2026-03-04 12:00:30 UTC"
    assert "already known: already known" in second[6]
    assert "in a block" in second[6]
    row.attempts.update(outcome="nonce too low", error="Expected nonce to be 8.")
    second, _ = admin_client.get(change(row)).context["signed_attempts"]["rows"]
    assert re.sub("<[^>]*>", "", second[6]).strip() == "in a block"
    assert first[:2] + first[3:] == [
        *("1", "Send", "at most 20 gwei, priority 1 gwei", "21,000", "0", "-", "-"),
    ]
    assert shown(page, "shown_value") == "0.5 ETH"
    assert "(200 bytes)" in shown(page, "shown_data")
    assert "0102" * 100 in shown(page, "shown_data")
    assert f"{explorer}/block/7654321" in shown(page, "block")
    assert shown(page, "fee") == "0.000315 ETH"
    assert shown(page, "effective_price") == "15 gwei"
    assert shown(page, "outcome") == "succeeded"
    assert shown(page, "shown_key") == "order-5"
    assert shown(page, "shown_external_id") == "&lt;b&gt;5"
    assert shown(page, "shown_metadata") == "a: &amp;<br>shop: &lt;i&gt;x"


def test_a_pending_transaction_has_no_receipt_and_its_timeline_starts_once(admin_client: Client, lane: Lane) -> None:
    row = factories.transaction(lane, created_at=NOON, requested_by="Shop", value_text=str(10**9 - 1))
    StatusChange.objects.create(transaction=row, version=1, to_status="pending", at=NOON)
    requeued = {"from_status": "sent", "to_status": "pending", "at": NOON + timedelta(minutes=1)}
    StatusChange.objects.create(transaction=row, version=2, **requeued)
    page = admin_client.get(change(row))
    assert "Nothing was signed yet." in page.content.decode()
    assert "Receipt" not in page.content.decode()
    lines = [(line["change"], line["at"]) for line in page.context["progress"]["lines"]]
    assert lines == [("Pending", requeued["at"])]
    assert "12:00:00 UTC Accepted from Shop" in text(page, "Progress")
    # Less than a gwei is shown in wei.
    assert shown(page, "shown_value") == "999999999 wei"


def test_a_final_transaction_without_attempts_expects_none(admin_client: Client, lane: Lane) -> None:
    row = factories.transaction(lane, status="failed")
    page = admin_client.get(change(row))
    facts = page.context["progress"]["facts"]
    assert (facts["Nonce"], facts["Hash"]) == ("none", "none")
    assert "Nothing was signed." in page.content.decode()


def test_the_receipt_of_a_no_op_is_named_as_such(admin_client: Client, lane: Lane) -> None:
    row = confirmed(lane)
    for purpose, title in (("bump", "Receipt"), ("expire", "Receipt of the no-op")):
        row.attempts.filter(number=row.attempts.count()).update(purpose=purpose)
        fieldsets = admin_client.get(change(row)).context["adminform"].fieldsets
        assert [name for name, _ in fieldsets] == ["Payload", title, "Request"]


def test_a_transaction_outlives_its_relayer(admin_client: Client, lane: Lane) -> None:
    row = confirmed(lane)
    assert lane.relayer
    Lane.objects.update(relayer=None)
    Relayer.objects.filter(pk=lane.relayer.pk).delete()
    assert rows(admin_client.get(LIST))[0][1:4] == [lane.address, "confirmed", "sepolia"]
    page = admin_client.get(change(row))
    assert page.context["progress"]["facts"]["Relayer"] == "deleted"
    assert shown(page, "shown_value") == "0.5 ETH"


def test_an_unknown_network_shows_wei_and_no_explorer(admin_client: Client) -> None:
    lane = factories.lane(relayer_factories.relayer(network="mine", chain_id=4711, rpc_urls=[]), chain_id=4711)
    row = sent(lane, 7, value_text="5")
    page = admin_client.get(change(row))
    assert shown(page, "shown_value") == "5 wei"
    assert row.last_attempt
    hash_shown = page.context["progress"]["facts"]["Hash"]
    assert f'<code id="copied-hash">{row.last_attempt.hash}</code>' in hash_shown
    assert "<a " not in hash_shown
    assert page.context["progress"]["facts"]["Network"] == "mine"


def test_a_list_of_many_makes_as_many_queries_as_one_of_few(admin_client: Client, lane: Lane) -> None:
    counted = []
    for first, last in ((0, 10), (10, 40)):
        for number in range(first, last):
            sent(lane, number, identifier=f"tx-{number}")
        numbers = []
        for query in ("", "q=7", "status=submitted&network=sepolia"):
            admin_client.get(f"{LIST}?{query}")
            with CaptureQueriesContext(connection) as queries:
                admin_client.get(f"{LIST}?{query}")
            numbers.append(len(queries))
        counted.append(numbers)
    assert counted[0] == counted[1]


def test_a_page_with_many_attempts_makes_as_many_queries_as_one_with_few(admin_client: Client, lane: Lane) -> None:
    row, counted = sent(lane, 7), []
    for count in (1, 60):
        for _ in range(count):
            attempt = factories.attempt(row)
            StatusChange.objects.create(
                transaction=row, version=attempt.number, to_status="submitted", at=NOON, attempt=attempt
            )
        admin_client.get(change(row))
        with CaptureQueriesContext(connection) as queries:
            page = admin_client.get(change(row))
        counted.append(len(queries))
    assert counted[0] == counted[1]
    assert page.context["attempts_more"] == "and 12 more"


def test_the_page_shows_who_requested_what_and_the_last_requested_price(admin_client: Client, lane: Lane) -> None:
    price = {"pricing": "eip1559", "speed": "", "max_fee_text": str(20 * GWEI), "max_priority_fee_text": str(GWEI)}
    row = sent(lane, 7, **price)
    actions.speed_up(row.pk, {"speed": "fast"}, by="olga", reason="Late: <b>")
    actions.speed_up(row.pk, {"speed": "fastest"}, by="olga")
    actions.cancel(row.pk, by="ops", reason="Wrong receiver")
    with CaptureQueriesContext(connection) as queries:
        page = admin_client.get(change(row))
    assert sum('FROM "relayer_service_auditentry"' in each["sql"] for each in queries) == 1
    lines = [f"{line['change']} | {line['details']}" for line in page.context["progress"]["lines"]]
    assert lines == [
        "Cancellation requested by ops | Wrong receiver",
        "Higher price requested by olga | price: speed fast → speed fastest",
        "Higher price requested by olga | Late: <b>; price: at most 20 gwei, priority 1 gwei → speed fast",
    ]
    assert "Late: &lt;b&gt;" in page.content.decode()
    assert shown(page, "requested_price") == "speed fastest"
    assert "Last requested price" in text(page, "Payload")


def test_the_page_links_the_token_that_requested_it_for_those_who_may_see_tokens(
    admin_client: Client, client: Client, admin_user: User, lane: Lane
) -> None:
    token, _ = issue(name="R&D", user=admin_user)
    row = factories.transaction(lane, requested_by=str(token), requester=token.family_key)
    text = f"R&amp;D (rms_{token.key}_…)"
    linked = f'<a class="underline" href="/admin/tokens/accesstoken/{token.pk}/change/">{text}</a>'
    page = admin_client.get(change(row))
    assert (shown(page, "shown_requester"), page.content.decode().count(linked)) == (linked, 2)
    assert shown(staff_who_may(client, "view_transaction").get(change(row)), "shown_requester") == text
    token.delete()
    assert shown(admin_client.get(change(row)), "shown_requester") == text


def test_amounts_of_reasons_and_of_the_time_line_have_their_units(admin_client: Client, lane: Lane) -> None:
    FeeToken.objects.create(network="sepolia", address=TOKEN, symbol="USDC", decimals=6)
    row = sent(lane, 7)
    actions.replace(row.pk, {"to": TOKEN, "value": 5 * 10**17}, by="olga")
    (line,) = admin_client.get(change(row)).context["progress"]["lines"]
    assert "value: 0 ETH → 0.5 ETH" in line["details"]
    reason, counted = "Amount {} of the token {}; the maximum of a transaction is {}.", []
    refused = {"data": call(TRANSFER, ALICE, 7_000_000), "status_reason": reason.format(7_000_000, TOKEN, 5_000_000)}
    for _ in range(2):
        failed = factories.transaction(lane, to=TOKEN, status="failed", **refused)
        admin_client.get(LIST)
        with CaptureQueriesContext(connection) as queries:
            listed = rows(admin_client.get(LIST))
        counted.append(len(queries))
    words = reason.format("7 USDC", TOKEN, "5 USDC")
    assert ([row[7] for row in listed[:2]], counted[0]) == ([words, words], counted[1])
    assert admin_client.get(change(failed)).context["progress"]["reason"] == words


def ends(address: str) -> str:
    return f"{address[:6]}…{address[-6:]}"


def test_calls_of_tokens_are_shown_in_words_with_symbols_of_configured_tokens_alone(
    admin_client: Client, lane: Lane
) -> None:
    hostile = {"symbol": f"<b>\u202e{'U' * 20}", "decimals": 0}
    for address, token in ((TOKEN, {"symbol": "USDC", "decimals": 6}), (OTHER, hostile)):
        FeeToken.objects.create(network="sepolia", address=address, **token)
    calls: list[tuple[str, str, tuple[str | int, ...], str]] = [
        (TOKEN, TRANSFER, (ALICE, 5_000_000), "Transfer 5 USDC to"),
        (TOKEN, APPROVE, (ALICE, 2**256 - 1), "Approve spending of an unlimited amount of USDC by"),
        (TOKEN, TRANSFER_FROM, (BOB, ALICE, 1), f"Transfer 0.000001 USDC from {ends(BOB)} to"),
        (OTHER, TRANSFER, (ALICE, 7), "Transfer 7 &lt;b&gt;UUUUUUUUUUUUU… to"),
        (MALLORY, TRANSFER, (ALICE, 1_000), f"{UNVERIFIED} to"),
        (TOKEN, TRANSFER, (ALICE, 10**15 + 4), "Transfer 1,000,000,000 USDC to"),
    ]
    made = [factories.transaction(lane, to=to, data=call(name, *values)) for to, name, values, _ in calls]
    # Not what contracts may read as one.
    factories.transaction(lane, to=TOKEN, data=call(TRANSFER, ALICE, 1) + b"\0")
    listed = [row[5] for row in rows(admin_client.get(LIST))]
    assert listed[0] == "0x1111…111111"
    assert [each.partition(" ")[2] for each in listed[:0:-1]] == [f"{words} {ends(ALICE)}" for *_, words in calls]
    whole = shown(admin_client.get(change(made[2])), "token_call")
    assert [words for words in re.sub("<[^>]*>", " ", whole).split() if words != "Copy"] == [
        *("Transfer", "0.000001", "USDC", "from", BOB, "to", ALICE)
    ]
    assert 'title="1000000000.000004 USDC"' in admin_client.get(LIST).content.decode()
    assert "by" in shown(admin_client.get(change(made[1])), "token_call")
    assert shown(admin_client.get(change(made[4])), "token_call").startswith(
        "Transfer 1,000 units of an unverified token"
    )


@pytest.mark.both_engines
def test_the_page_shows_the_deliveries_of_a_transaction_to_those_who_may_see_them(
    admin_client: Client, client: Client, lane: Lane
) -> None:
    row, other = sent(lane, 7), sent(lane, 8)
    assert row.relayer
    target = Notification.objects.create(identifier="billing", url="https://billing.example.com/")
    for number, about in enumerate((row, other, row)):
        # The client of the other one labels it with this one's ID.
        spoofed = {"id": row.identifier, "data": f'"data":{{"id":"{row.identifier}"'}
        data: Any = {"id": about.identifier, "metadata": spoofed if about == other else {}}
        body = encode_body(TRANSACTION_SUBMITTED, data, timezone.now())
        of_row = {
            "identifier": f"msg_{number}-of-tests",
            "event": "transaction.submitted",
            "subject": row.relayer.identifier,
        }
        Delivery.objects.create(notification=target, body=body, state="delivered", **of_row)
    card = text(admin_client.get(change(row)), "Webhook deliveries")
    assert [name for name in ("msg_0", "msg_1", "msg_2") if name in card] == ["msg_0", "msg_2"]
    assert card.index("msg_2") < card.index("msg_0")
    Transaction.objects.filter(pk=row.pk).update(**factories.final("failed"), created_at=NOON)
    assert "No webhook received an event" in text(admin_client.get(change(row)), "Webhook deliveries")
    staff = staff_who_may(client, "view_transaction")
    assert "Webhook deliveries" not in staff.get(change(row)).content.decode()


def test_the_list_of_relayers_shows_signer_runway_and_last_transaction(
    admin_client: Client, client: Client, lane: Lane, settings: Any
) -> None:
    settings.EXTENSIONS = ["transactions"]
    day, page, counted = int(timezone.now().timestamp()) // 86_400 * 86_400, "/admin/relayers/relayer/", []
    read = [[int(timezone.now().timestamp()) // 3_600 * 3_600, str(10**18)]]
    spent = {"balance_text": str(10**18), "balance_hours": read, "outflow_days": [[day, str(10**17)]]}
    spent["reserve_text"] = str(4 * 10**17)
    relayer_factories.relayer(identifier="relayer-2", address=OTHER, **spent)
    for hours in (2, 1):
        factories.transaction(lane, created_at=timezone.now() - timedelta(hours=hours))
    for number in (3, 4, 20):
        for other in range(10 * number, 11 * number):
            relayer_factories.relayer(identifier=f"relayer-{other}", address=f"0x{other:040x}")
        with CaptureQueriesContext(connection) as queries:
            found = {row[1]: row for row in rows(admin_client.get(page))}
        counted.append(len(queries))
    columns = [[found[name][4], found[name][7], found[name][9]] for name in ("relayer-1", "relayer-2")]
    assert columns == [["signer-1", "-", "an hour ago"], ["signer-1", "6 days", "never"]]
    # What is read once in a process is read by the first.
    assert counted[1] == counted[2]
    assert "Last transaction" not in staff_who_may(client, "view_relayer").get(page).content.decode()
