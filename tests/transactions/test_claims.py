"""Requests that may repeat what was found on the chain after lost commits: staff decide about them."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from pytest_django import DjangoCaptureOnCommitCallbacks

from relayer_service.background.tasks import queue
from relayer_service.database.clock import database_now
from relayer_service.models import AuditEntry
from tests.notifications.admin_pages import buttons, hidden_fields, staff_who_may, told
from tests.relayers import factories as relayers
from tests.transactions import factories
from transactions.console.duplicates import FOUND, LINK, LINK_EFFECT, SEND, SEND_EFFECT
from transactions.models import Attempt, Lane, Status, Transaction
from transactions.settlement.nonces import adoption

pytestmark = pytest.mark.django_db

LIST = "/admin/transactions/transaction/"


@pytest.fixture
def lane() -> Lane:
    return factories.lane(relayers.relayer(), next_nonce=5)


@pytest.fixture
def external(lane: Lane) -> Transaction:
    """What was executed before the commits were lost."""
    until = database_now() + timedelta(hours=1)
    row = factories.transaction(
        lane, identifier="found", kind="external", nonce=4, status=Status.SUBMITTED, value_text="7", block_number=90
    )
    row.mined_attempt = factories.attempt(row, purpose=Attempt.Purpose.EXTERNAL)
    row.status, row.unclaimed_until, row.succeeded, row.finished_at = Status.CONFIRMED, until, True, database_now()
    row.save()
    return row


@pytest.fixture
def row(lane: Lane, external: Transaction) -> Transaction:
    return factories.transaction(lane, identifier="tx-1", value_text="7")


def decider(client: Client) -> Client:
    return staff_who_may(client, "view_transaction", "change_transaction")


def decide(client: Client, row: Transaction, action: str, reason: str = "Called the client") -> Any:
    url = f"{LIST}{row.pk}/{action}/"
    return client.post(url, hidden_fields(client.get(url)) | {"reason": reason}, follow=True)


def reasons(row: Transaction) -> list[str]:
    return [entry.reason for entry in AuditEntry.objects.for_row(row).order_by("pk")]


def command(*arguments: str) -> list[str]:
    output = io.StringIO()
    call_command("resolve_claims", *arguments, stdout=output)
    return output.getvalue().splitlines()


def test_a_request_that_waits_for_staff_offers_both_decisions(client: Client, row: Transaction) -> None:
    other = factories.transaction(row.lane, identifier="tx-2", value_text="8")
    staff = decider(client)
    assert buttons(staff.get(f"{LIST}{row.pk}/change/")) == [LINK, SEND]
    assert buttons(staff.get(f"{LIST}{other.pk}/change/")) == ["Speed up", "Cancel"]


def test_staff_link_a_request_to_the_transaction_that_is_shown(
    client: Client, row: Transaction, external: Transaction
) -> None:
    staff, found = decider(client), external.mined_attempt
    asks = staff.get(f"{LIST}{row.pk}/link_found/")
    assert asks.context["texts"] == [FOUND.format(hash=found, nonce=4, block=90), LINK_EFFECT]
    assert told(decide(staff, row, "link_found")) == ["Linked."]
    row.refresh_from_db()
    assert (row.status, row.nonce, row.mined_attempt) == ("confirmed", 4, found)
    assert reasons(row) == [f"Linked to {found}, which was found on the chain. Called the client"]
    assert not Transaction.objects.filter(pk=external.pk).exists()


def test_staff_send_a_request_and_its_lane_takes_a_turn(
    client: Client, row: Transaction, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    staff = decider(client)
    assert staff.get(f"{LIST}{row.pk}/send_anyway/").context["texts"][1] == SEND_EFFECT
    with django_capture_on_commit_callbacks(execute=True):
        assert told(decide(staff, row, "send_anyway")) == ["It is sent."]
    row.refresh_from_db()
    assert (row.status, row.claim_released, adoption.find_claim(row)) == ("pending", True, None)
    assert reasons(row) == ["It is not a transaction that was found on the chain: it is sent. Called the client"]
    assert [(task.name, task.args) for task in queue.pending()] == [("wake_lane", (row.lane_id,))]


def test_a_decision_needs_a_reason_and_the_transaction_that_is_shown(client: Client, row: Transaction) -> None:
    staff = decider(client)
    decide(staff, row, "send_anyway", reason="")
    done = staff.post(f"{LIST}{row.pk}/link_found/", {"found": "0", "reason": "Called"}, follow=True)
    assert told(done) == ["The transaction was changed meanwhile."]
    row.refresh_from_db()
    assert (row.status, row.claim_released, reasons(row)) == ("pending", False, [])


def test_who_may_only_view_transactions_is_offered_no_decision(client: Client, row: Transaction) -> None:
    assert buttons(staff_who_may(client, "view_transaction").get(f"{LIST}{row.pk}/change/")) == []


def test_the_command_lists_links_and_sends(row: Transaction, external: Transaction) -> None:
    found = external.mined_attempt
    assert command() == [f"tx-1 of relayer-1: {found}", "1 to decide."]
    assert reasons(row) == []
    again = factories.transaction(row.lane, identifier="tx-2", value_text="7")
    assert command("--link", "tx-1", "--send", "tx-2", "--reason", "Ticket 4") == [
        f"tx-1 of relayer-1: {found}: linked",
        f"tx-2 of relayer-1: {found}: will be sent",
    ]
    row.refresh_from_db()
    again.refresh_from_db()
    assert (row.status, again.status, again.claim_released) == ("confirmed", "pending", True)
    entry = AuditEntry.objects.for_row(again).get()
    assert (entry.who, entry.reason.endswith("Ticket 4")) == ("Command resolve_claims", True)


def test_the_command_refuses_what_does_not_wait(row: Transaction) -> None:
    with pytest.raises(CommandError, match="Not waiting for a decision: tx-9"):
        command("--send", "tx-9")
    with pytest.raises(CommandError, match="Given for both --link and --send: tx-1"):
        command("--send", "tx-1", "--link", "tx-1")
    assert reasons(row) == []
