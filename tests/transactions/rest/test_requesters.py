"""Who requested that a transaction is canceled or replaced, and why: in its events and the audit log."""

from __future__ import annotations

import orjson
import pytest
import rlp
from django.db import transaction
from django.test import Client

from chain.transactions import Draft, Prices
from notifications.models import Delivery
from relayer_service.models import AuditEntry
from tests.api import Api
from tests.contract import bodies
from tests.notifications.admin_pages import confirm
from tests.relayer_service.jobs import run_jobs
from tests.relayers import factories as relayers
from tests.transactions import factories
from tests.transactions.rest.requests import PATH, RECEIVER, TRANSFER
from transactions.changes import Changes, locking_rows
from transactions.lanes import leasing
from transactions.lanes.commits import NewAttempt, Result, commit
from transactions.lanes.signing import Signed
from transactions.models import Attempt, Lane, Status, Transaction
from transactions.records.states import Cause

pytestmark = pytest.mark.django_db

REASON = "Wrong amount & <address>"
QUERY = "?reason=Wrong%20amount%20%26%20%3Caddress%3E"
LEGACY = rlp.encode([b"\x07", b"\x01", b"\x01", bytes(20), b"", b"", b"\x1b", b"\x01", b"\x01"])
LIST = "/admin/transactions/transaction/"


@pytest.fixture
def lane() -> Lane:
    return factories.lane(relayers.relayer(notification=relayers.notification()), next_nonce=8)


def in_flight(lane: Lane) -> Transaction:
    row = factories.transaction(lane, nonce=7, status=Status.SUBMITTED)
    factories.attempt(row, max_fee_text="800", max_priority_fee_text="80")
    return row


def press(client: Client, row: Transaction, action: str, reason: str) -> None:
    """Confirm an action on the page of a transaction."""
    assert client.post(f"{LIST}{row.pk}/{action}/", {"reason": reason}).status_code == 302


def announced() -> list[tuple[str, str, str]]:
    events = [orjson.loads(bytes(each.body)) for each in Delivery.objects.order_by("pk")]
    return [(event["type"], event["data"]["actor"], event["data"]["reason"]) for event in events]


def recorded(row: Transaction) -> str:
    (reason,) = AuditEntry.objects.for_row(row).values_list("reason", flat=True)
    return reason


@pytest.mark.parametrize("path", ["{}", "pending"])
def test_a_token_cancels_with_a_reason(sender: Api, lane: Lane, path: str) -> None:
    row = factories.transaction(lane)
    url = f"{PATH}/{path.format(row.identifier)}"
    for reason in ("a" * 501, "a%00"):
        answer = sender("DELETE", f"{url}?reason={reason}")
        (fault,) = bodies.uncoded(answer.body)["metadata"]["logs"]
        assert (answer.status, fault["message"].partition(":")[0]) == (400, "reason")
    assert sender("DELETE", f"{url}{QUERY}").status == 200
    assert announced() == [("transaction.canceled", "token payments", REASON)]
    assert recorded(row).startswith("Cancellation requested by payments ")
    assert recorded(row).endswith(f": {REASON}")
    # It is optional.
    assert sender("DELETE", f"{PATH}/{factories.transaction(lane).identifier}").status == 200
    assert announced()[1:] == [("transaction.canceled", "token payments", "")]


def test_staff_cancel_with_a_reason_also_by_a_job(admin_client: Client, lane: Lane) -> None:
    row, selected, former = (factories.transaction(lane) for _ in range(3))
    assert b'name="reason"' in admin_client.get(f"{LIST}{row.pk}/cancel/").content
    press(admin_client, row, "cancel", REASON)
    assert recorded(row) == f"Cancellation requested by admin: {REASON}"
    confirm(admin_client, LIST, {"action": "cancel_selected", "_selected_action": [selected.pk]}, reason=REASON)
    run_jobs()
    # A request of the last release has an unknown actor.
    Transaction.objects.filter(pk=former.pk).update(requested_action="cancel")
    with transaction.atomic():
        changes = Changes()
        changes.move(locking_rows().get(pk=former.pk), Cause.CANCELED)
        changes.save()
    canceled = [("transaction.canceled", "user admin", REASON)] * 2
    assert announced() == [*canceled, ("transaction.canceled", "unknown", "")]


def test_a_cancellation_in_flight_keeps_its_first_requester(sender: Api, admin_client: Client, lane: Lane) -> None:
    row = in_flight(lane)
    assert sender("DELETE", f"{PATH}/{row.identifier}{QUERY}").status == 200
    assert sender("DELETE", f"{PATH}/{row.identifier}?reason=again").status == 200
    press(admin_client, row, "cancel", "me too")
    Transaction.objects.update(status=Status.MINED, mined_attempt=factories.attempt(row, purpose="cancel"))
    with transaction.atomic():
        changes, locked = Changes(), locking_rows().get()
        changes.move(locked, Cause.NOOP_MINED, locked.action_reason)
        changes.save()
    assert announced() == [("transaction.canceled", "token payments", REASON)]


def test_a_replacement_is_that_of_its_requester_whoever_raises_its_price(
    sender: Api, admin_client: Client, lane: Lane
) -> None:
    row = in_flight(lane)
    assert sender("PUT", f"{PATH}/{row.identifier}{QUERY}", {**TRANSFER, "value": 5}).status == 200
    press(admin_client, row, "speed_up", "It is urgent")
    row = locking_rows().get()
    assert row.requested_action == "replace"
    claimed = leasing.claim(lane.pk)
    assert claimed is not None
    draft = Draft(11155111, 7, RECEIVER, 5, b"", 21_000, Prices(gas_price=900))
    replacement = Signed(draft, LEGACY, f"0x{5:064x}")
    assert commit(claimed, Result([NewAttempt(row, Attempt.Purpose.REPLACE, replacement, 42_000)]))
    assert announced() == [("transaction.replaced", "token payments", REASON)]


@pytest.mark.parametrize("action", ["speed_up", "resend"])
def test_the_reason_of_other_actions_is_in_the_audit_log(admin_client: Client, lane: Lane, action: str) -> None:
    row = in_flight(lane)
    Attempt.objects.update(raw=b"signed")
    press(admin_client, row, action, REASON)
    assert recorded(row).endswith(f" requested by admin: {REASON}")
    assert announced() == []
