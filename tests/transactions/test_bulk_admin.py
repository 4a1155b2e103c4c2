"""Cancel, speed up and resend many transactions: confirmed with their cost, run as jobs, each exactly once."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from chain.networks import networks
from chain.units import coins
from relayer_service.background.tasks import queue
from relayer_service.jobs import running
from relayer_service.models import AuditEntry, Job
from relayer_service.storage.selections import Selection
from relayers.models import Relayer
from tests.notifications.admin_pages import asked, confirm, hidden_fields, told
from tests.relayer_service.jobs import run_jobs, start_job
from tests.relayers import factories as relayer_factories
from tests.transactions import factories
from transactions.console import bulk
from transactions.jobs import CancelTransactions
from transactions.models import Attempt, Lane, Status, Transaction
from transactions.requests import possible_actions
from transactions.requests.accepting import PAUSED

pytestmark = pytest.mark.django_db

LIST = "/admin/transactions/transaction/"
GWEI = 10**9
OTHER = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"
# The highest price of the relayer makes 21,000 gas cost 0.0021 ETH.
POLICIES = {"gas_price_cap": 100 * GWEI}


@pytest.fixture
def lane() -> Lane:
    return factories.lane(relayer_factories.relayer(policies=POLICIES))


def sent(lane: Lane, nonce: int, **changes: Any) -> Transaction:
    values = {"identifier": f"tx-{nonce}", "status": Status.SUBMITTED, "nonce": nonce}
    row = factories.transaction(lane, **(values | changes))
    fees = {"max_fee_text": str(20 * GWEI), "max_priority_fee_text": str(GWEI)}
    cost = str(21_000 * 20 * GWEI)
    factories.attempt(row, raw=b"\x02", max_cost_text=cost, last_broadcast_at=timezone.now(), **fees)
    return row


def select(action: str, *rows: Transaction, **fields: str) -> dict[str, Any]:
    return {"action": action, "_selected_action": [row.pk for row in rows], **fields}


def state(row: Transaction) -> tuple[str, str]:
    row.refresh_from_db()
    return row.status, row.requested_action


def recorded() -> list[tuple[str, str, str, str]]:
    entries = AuditEntry.objects.filter(object_type="transaction").order_by("pk")
    return list(entries.values_list("object_id", "reason", "actor", "request_id"))


def test_a_cancel_asks_first_and_says_what_it_skips(admin_client: Client, lane: Lane) -> None:
    chosen = [
        factories.transaction(lane, identifier="tx-pending"),
        factories.transaction(lane, identifier="tx-final", status=Status.FAILED),
        sent(lane, 7, requested_action="expire"),
        sent(lane, 8, requested_action="cancel"),
    ]
    page = admin_client.post(LIST, select("cancel_selected", *chosen))
    total = possible_actions.maximum_cost(chosen[2], "cancel")
    assert total
    cost = coins(total, networks()["sepolia"])
    assert page.context["texts"] == [
        CancelTransactions.explanation.format("3 transactions"),
        f"After that, they can cost at most, including their values: {cost} on sepolia.",
        "Not possible for 1: Its cancellation was requested already.",
        "Already final, and skipped: 1 transaction.",
    ]
    assert [row[:3] for row in asked(page)] == [
        ["tx-pending", "relayer-1", "pending"],
        ["tx-final", "relayer-1", "failed"],
        ["tx-7", "relayer-1", "submitted"],
        ["tx-8", "relayer-1", "submitted"],
    ]
    assert state(chosen[0]) == ("pending", "")
    assert not Job.objects.exists()


def test_a_speed_up_says_what_it_costs_at_most_by_network(
    admin_client: Client, lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = relayer_factories.relayer(identifier="relayer-2", network="mainnet", address=OTHER, policies=POLICIES)
    chosen = [sent(lane, 1), sent(lane, 2), sent(factories.lane(other), 3), factories.transaction(lane)]
    page = admin_client.post(LIST, select("speed_up_selected", *chosen))
    assert page.context["texts"][1:] == [
        "After that, they can cost at most, including their values: 0.0021 ETH on mainnet, 0.0042 ETH on sepolia.",
        "Without a maximum cost, as they have no price yet: 1.",
    ]
    monkeypatch.setattr(bulk, "MAX_COSTED", 3)
    page = admin_client.post(LIST, select("speed_up_selected", *chosen))
    assert page.context["texts"][1:] == ["The maximum cost is not computed for more than 3 transactions."]


def test_a_confirmation_of_many_makes_as_many_queries_as_one_of_few(admin_client: Client, lane: Lane) -> None:
    chosen, counted = [], []
    for first, last in ((0, 3), (3, 30)):
        chosen += [sent(lane, nonce) for nonce in range(first, last)]
        admin_client.post(LIST, select("cancel_selected", *chosen))
        numbers = []
        for action in ("cancel_selected", "speed_up_selected", "resend_selected"):
            with CaptureQueriesContext(connection) as queries:
                admin_client.post(LIST, select(action, *chosen))
            numbers.append(len(queries))
        counted.append(numbers)
    assert counted[0] == counted[1]


def test_a_job_cancels_what_it_can_and_names_the_rest(
    admin_client: Client, lane: Lane, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    pending = factories.transaction(lane, identifier="tx-pending")
    final = factories.transaction(lane, identifier="tx-final", status=Status.FAILED)
    submitted, mined = sent(lane, 7), sent(lane, 8)
    Transaction.objects.filter(pk=mined.pk).update(
        status=Status.MINED, mined_attempt=mined.last_attempt, block_number=99
    )
    page = confirm(admin_client, LIST, select("cancel_selected", pending, final, submitted, mined))
    assert told(page) == ["Started in the worker: Cancel 4 transactions. View its progress."]
    with django_capture_on_commit_callbacks(execute=True):
        run_jobs()
    job = Job.objects.get()
    assert (job.state, job.done, job.skipped, job.failed) == ("finished", 2, 1, 1)
    assert job.failures == [["tx-8", "It is mined, in block 99."]]
    assert [state(row) for row in (pending, final, submitted, mined)] == [
        *(("canceled", ""), ("failed", ""), ("submitted", "cancel"), ("mined", "")),
    ]
    by = "Cancellation requested by admin."
    assert recorded() == [(name, by, "admin", f"job-{job.pk}") for name in ("tx-pending", "tx-7")]
    assert ("wake_lane", (lane.pk,)) in [(task.name, task.args) for task in queue.pending()]


def test_all_that_a_filter_finds_is_canceled(
    admin_client: Client, lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk.BulkAdmin, "list_per_page", 1)
    rows = [factories.transaction(lane) for _ in range(3)]
    other = sent(lane, 7)
    url = f"{LIST}?status=pending"
    page = admin_client.post(url, select("cancel_selected", rows[0], select_across="1"))
    # Accepted since: it was not confirmed.
    later = factories.transaction(lane)
    assert admin_client.post(url, hidden_fields(page))["Location"] == url
    run_jobs()
    assert [state(row) for row in (*rows, later, other)] == [
        *(3 * [("canceled", "")]),
        *(("pending", ""), ("submitted", "")),
    ]


class KilledError(BaseException):
    """The worker is killed."""


def kill(*_: Any) -> None:
    raise KilledError


@pytest.mark.parametrize("moment", ["before its progress is saved", "after a row"])
def test_a_job_whose_worker_was_killed_requests_nothing_twice(
    lane: Lane, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    rows = [factories.transaction(lane, identifier=f"tx-{number}", speed="safeLow") for number in range(3)]
    selection = Selection.from_keys([row.pk for row in rows])
    job = start_job("speed_up_transactions", selection)
    with monkeypatch.context() as patch:
        if moment == "after a row":
            patch.setattr(Job, "release", kill)
            patch.setattr(running, "SLICE_SECONDS", 0)
        else:
            patch.setattr(running, "_progress", kill)
        with pytest.raises(KilledError):
            running.run_job.call_local(job.pk)
    assert Transaction.objects.filter(speed="average").count() == (1 if moment == "after a row" else 0)
    Job.objects.update(due_at=timezone.now())
    run_jobs()
    job.refresh_from_db()
    assert (job.state, job.done) == ("finished", 3)
    # A second request would have raised it to `fast`.
    assert set(Transaction.objects.values_list("speed", flat=True)) == {"average"}
    assert [entry[:3] for entry in recorded()] == [
        (f"tx-{number}", "Higher price requested by olga.", "olga") for number in range(3)
    ]


def test_a_job_raises_the_price_of_a_client_to_the_market(lane: Lane) -> None:
    """An eighth above it, again and again, would reach any price."""
    row = factories.transaction(lane, pricing="legacy", speed="", gas_price_text="5")
    start_job("speed_up_transactions", Selection.from_keys([row.pk]))
    run_jobs()
    row.refresh_from_db()
    assert (row.pricing, row.speed, row.gas_price_text) == ("speed", "fast", "")


def test_speeding_up_names_the_rows_of_a_paused_relayer(admin_client: Client, lane: Lane) -> None:
    row = sent(lane, 7)
    Relayer.objects.update(paused=True)
    page = admin_client.post(LIST, select("speed_up_selected", row))
    assert page.context["texts"][1:] == [f"Not possible for 1: {PAUSED}"]
    admin_client.post(LIST, hidden_fields(page))
    run_jobs()
    assert Job.objects.get().failures == [["tx-7", PAUSED]]
    assert state(row) == ("submitted", "")


def test_resending_makes_signed_bytes_due_again(admin_client: Client, lane: Lane) -> None:
    row, pending = sent(lane, 7), factories.transaction(lane, identifier="tx-pending")
    confirm(admin_client, LIST, select("resend_selected", row, pending))
    run_jobs()
    assert Attempt.objects.get().last_broadcast_at is None
    job = Job.objects.get()
    assert (job.done, job.failures) == (1, [["tx-pending", possible_actions.NOT_SIGNED]])
