"""When a top-up has ended, what the limits leave, and what staff see of top-ups."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from relayers import guards
from relayers.models import Relayer
from relayers.models.top_ups import TopUpAmounts
from tests.relayers import factories as relayer_factories
from tests.transactions import factories
from transactions.models import ChainWatch, Lane, TopUp, Transaction
from transactions.topups import decisions

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
AMOUNTS = TopUpAmounts(minimum=10, target=30, daily_limit=70)
SENT = {"nonce": 5, "block_number": 110, "finished_at": NOW}


@pytest.mark.parametrize(
    ("row", "lane", "block"),
    [
        # Final, and no reorg can remove it.
        ({"status": "confirmed", **SENT}, {"final_nonce": 6, "final_block": 112}, 115),
        # A reorg deeper than `confirmations` could remove it, and it would be broadcast again.
        ({"status": "confirmed", **SENT}, {"final_nonce": 5, "final_block": 109}, None),
        ({"status": "confirmed", **SENT}, {}, None),
        ({"status": "failed", **SENT}, {"final_nonce": 5}, None),
        # Nodes never report what is final.
        ({"status": "confirmed", **SENT, "finished_at": NOW - timedelta(days=1)}, {}, 115),
        # It never got a nonce.
        ({"status": "failed", "finished_at": NOW}, {}, 115),
        # Its chain was replaced, and the numbers of blocks started over.
        ({"status": "failed", **SENT}, {"epoch": 1}, 0),
        ({"status": "mined", **SENT}, {"final_nonce": 6}, None),
        ({"status": "pending"}, {}, None),
    ],
)
def test_a_top_up_ends_when_nothing_can_change_it(
    row: dict[str, Any], lane: dict[str, Any], block: int | None
) -> None:
    found = decisions.settled_block(
        TopUp(block=100), Transaction(**row), Lane(watch=ChainWatch(head_number=115), **lane), NOW
    )
    assert found == block


@pytest.mark.parametrize(("balance", "amount"), [(0, 30), (9, 21), (10, 0), (31, 0)])
def test_what_is_missing_to_the_target_is_sent_below_the_minimum(balance: int, amount: int) -> None:
    assert decisions.missing(AMOUNTS, balance) == amount


@pytest.mark.parametrize(("sent", "allowed"), [([], True), ([40], True), ([41], False), ([30, 30], False)])
def test_the_daily_limit_is_exact(sent: list[int], allowed: bool) -> None:
    assert (decisions.limit_fault(AMOUNTS, 30, sent, None) == "") is allowed


@pytest.mark.parametrize(("balance", "can_pay"), [(111, True), (110, False)])
def test_gas_other_transactions_and_the_minimum_are_reserved(balance: int, can_pay: bool) -> None:
    fault = decisions.funds_fault("rich", 31, balance, reserved=30, policies={"min_balance": 50}, network=None)
    assert (fault == "") is can_pay


def test_the_pause_after_failures_doubles_up_to_six_hours() -> None:
    assert [decisions.backoff(failures).total_seconds() for failures in (1, 2, 3, 10, 1_000)] == [
        60,
        120,
        240,
        21600,
        21600,
    ]


@pytest.fixture
def relayer(settings: Any) -> Relayer:
    settings.EXTENSIONS = ["transactions"]
    rich = relayer_factories.relayer(identifier="rich", name="Rich")
    amounts = {"top_up_minimum_text": "10", "top_up_target_text": "30", "top_up_daily_limit_text": "70"}
    return relayer_factories.relayer(identifier="poor", name="Poor", funding_relayer=rich, **amounts)


def top_up(relayer: Relayer, state: str, **changes: Any) -> TopUp:
    values = {"relayer": relayer, "state": state, "amount_text": "25", "balance_text": "5", "block": 100}
    if state != "blocked":
        assert relayer.funding_relayer is not None
        values["transaction"] = factories.transaction(factories.lane(relayer.funding_relayer))
    return TopUp.objects.create(**values | changes)


@pytest.mark.django_db
def test_a_relayer_that_is_being_topped_up_keeps_its_account(relayer: Relayer) -> None:
    row = top_up(relayer, "open")
    reason = guards.refusals([relayer.pk])[relayer.pk]
    assert reason.startswith("Relayer poor is being topped up.")

    row.state = TopUp.State.SUCCEEDED
    row.save()
    assert guards.refusals([relayer.pk]) == {}


@pytest.mark.django_db
def test_the_pages_of_relayer_and_transaction_name_each_other(relayer: Relayer, admin_client: Client) -> None:
    row = top_up(relayer, "open").transaction
    assert row is not None

    page = admin_client.get(f"/admin/relayers/relayer/{relayer.pk}/change/").content.decode()
    assert "Funded by" in page
    assert f"/admin/transactions/transaction/{row.pk}/change/" in page
    assert "when this one is final, and the balance was read after it" in page
    page = admin_client.get(f"/admin/transactions/transaction/{row.pk}/change/").content.decode()
    assert "Top-up of" in page
    assert f"/admin/relayers/relayer/{relayer.pk}/change/" in page
    assert "0.000000000000000005 ETH at block 100" in page


@pytest.mark.django_db
def test_what_is_not_topped_up_needs_attention(relayer: Relayer, admin_client: Client) -> None:
    row = top_up(relayer, "blocked", reason="The funding relayer rich cannot pay.", due_at=NOW)
    assert "The funding relayer rich cannot pay." in admin_client.get("/admin/").content.decode()

    # Another funding relayer, or none: what it was blocked by does not matter any more.
    guards.note_change([relayer.pk], {"funding_relayer"})
    assert not TopUp.objects.filter(pk=row.pk).exists()
    assert "cannot pay" not in admin_client.get("/admin/").content.decode()
