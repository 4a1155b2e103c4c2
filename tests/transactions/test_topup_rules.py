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
from transactions.top_ups import decisions

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
def test_the_pages_of_relayer_and_transaction_name_each_other(relayer: Relayer, admin_client: Client) -> None:
    opened = top_up(relayer, "open")
    row = opened.transaction
    assert row is not None

    page = admin_client.get(f"/admin/relayers/relayer/{relayer.pk}/change/").content.decode()
    assert "Funded by" in page
    assert f"/admin/transactions/transaction/{row.pk}/change/" in page
    assert "when this one is final, and the balance was read after it" in page
    page = admin_client.get(f"/admin/transactions/transaction/{row.pk}/change/").content.decode()
    assert "Top-up of" in page
    assert f"/admin/relayers/relayer/{relayer.pk}/change/" in page
    assert 'its balance was <span class="amount" title="5 wei">5 wei</span> at block 100' in page
    # Meanwhile the relayer keeps its account.
    assert guards.refusals([relayer.pk])[relayer.pk].startswith("Relayer poor is being topped up.")
    opened.state = TopUp.State.SUCCEEDED
    opened.save()
    assert guards.refusals([relayer.pk]) == {}


@pytest.mark.django_db
def test_what_is_not_topped_up_needs_attention(relayer: Relayer, admin_client: Client) -> None:
    row = top_up(relayer, "blocked", reason="The funding relayer rich cannot pay.", due_at=NOW)
    assert "The funding relayer rich cannot pay." in admin_client.get("/admin/").content.decode()

    # Another funding relayer, or none: what it was blocked by does not matter any more.
    guards.note_change([relayer.pk], {"funding_relayer"})
    assert not TopUp.objects.filter(pk=row.pk).exists()
    assert "cannot pay" not in admin_client.get("/admin/").content.decode()


def test_amounts_and_limits_are_exact() -> None:
    assert [decisions.missing(AMOUNTS, balance) for balance in (0, 9, 10, 31)] == [30, 21, 0, 0]
    limited = [decisions.limit_fault(AMOUNTS, 30, sent, None) for sent in ([], [40], [41], [30, 30])]
    assert [fault == "" for fault in limited] == [True, True, False, False]
    # Besides the top-up, the balance covers other transactions and the reserve.
    kept: dict[str, Any] = {"needed": 30, "reserve": 50, "network": None}
    funds = [decisions.funds_fault("rich", 31, balance, **kept) for balance in (111, 110)]
    assert [fault == "" for fault in funds] == [True, False]
    # The pause after failures doubles up to six hours.
    pauses = [decisions.backoff(failures).total_seconds() for failures in (1, 2, 3, 10, 1_000)]
    assert pauses == [60, 120, 240, 21600, 21600]
