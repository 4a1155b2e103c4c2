"""Nonces that no attempt explains: rows adopt transactions, are queued again, or a nonce is external."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from notifications.models import Delivery
from relayer_service.database.clock import database_now
from tests.relayers import factories
from tests.relayers.factories import KEY
from tests.transactions.hardhat import RECEIVER, LocalChain
from tests.transactions.settled import broadcast, lane, look, request, sent, short_depths, statuses
from transactions.models import Lane, Transaction
from transactions.settlement.nonces import adoption, holds

__all__ = ["short_depths"]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("short_depths")]


def mine_until_final(chain: LocalChain, account: Lane) -> None:
    """Make everything final that is in a block, and look as often as it takes."""
    chain.mine(4)
    for _ in range(4):
        look(account)


def externals(account: Lane) -> list[tuple[Any, ...]]:
    rows = Transaction.objects.filter(lane=account, kind="external").order_by("nonce")
    return [(row.nonce, row.status, row.to, row.value, bytes(row.data), row.succeeded) for row in rows]


def test_a_nonce_used_elsewhere_becomes_an_external_row(local_chain: LocalChain) -> None:
    account = lane(local_chain)
    relayer = account.relayer
    assert relayer is not None
    relayer.notification = factories.notification()
    relayer.save()
    used = local_chain.send_from(KEY, 0, value=5)
    local_chain.send_from(KEY, 1, value=6)
    local_chain.mine()
    look(account)
    look(account)
    assert (externals(account), account.next_nonce, list(account.holds)) == ([], 0, ["external"])
    local_chain.mine(4)
    # Both in one look.
    look(account)
    look(account)
    assert externals(account) == [(nonce, "confirmed", RECEIVER, 5 + nonce, b"", True) for nonce in range(2)]
    look(account)
    assert (account.next_nonce, account.holds) == (2, {})
    attempt = Transaction.objects.get(kind="external", nonce=0).mined_attempt
    assert attempt is not None
    assert (attempt.hash, attempt.purpose, bytes(attempt.raw)) == (used, "external", b"")
    # Ordinary use by others makes no request wait.
    assert adoption.unclaimed_matches([request(account, value_text="5")]) == {}
    events = [delivery.event for delivery in Delivery.objects.order_by("pk")]
    assert events == ["relayer.held", *2 * ["relayer.nonce_used"], "relayer.released"]


def test_a_row_whose_nonce_was_used_by_another_is_queued_again(local_chain: LocalChain) -> None:
    account = lane(local_chain)
    row = sent(account, 0)
    used = local_chain.send_from(KEY, 0, value=5)
    local_chain.mine()
    look(account)
    look(account)
    assert statuses(row) == ["submitted"]
    mine_until_final(local_chain, account)
    assert statuses(row) == ["pending"]
    assert row.status_reason == f"Another transaction used its nonce 0: {used}. It is queued again."
    assert (row.nonce, row.attempt, row.sent_at, row.attempts.count()) == (None, None, None, 1)
    assert externals(account) == [(0, "confirmed", RECEIVER, 5, b"", True)]
    assert (account.next_nonce, account.holds) == (1, {})


@pytest.mark.parametrize("is_replaced", [False, True])
def test_the_row_that_has_the_nonce_adopts_its_own_payload(local_chain: LocalChain, is_replaced: bool) -> None:
    """A bump whose commit was lost, before the row was replaced: the replacement must not be sent as well."""
    account = lane(local_chain)
    older = request(account)
    row = sent(account, 0)
    before = row.value_text
    if is_replaced:
        Transaction.objects.filter(pk=row.pk).update(value_text="77", payload_version=2)
    used = local_chain.send_from(KEY, 0, maxFeePerGas=20 * 10**9)
    local_chain.mine()
    mine_until_final(local_chain, account)
    assert statuses(row, older) == ["confirmed", "pending"]
    assert row.mined_attempt is not None
    assert (row.mined_attempt.hash, row.mined_attempt.number) == (used, 2)
    late = "The replacement came too late: the transaction before it was mined." if is_replaced else ""
    assert (row.value_text, row.payload_version, row.status_reason) == (before, 1, late)
    assert externals(account) == []


def test_the_oldest_row_without_a_nonce_adopts_a_lost_attempt(local_chain: LocalChain) -> None:
    account = lane(local_chain)
    other, first, second = request(account, value_text="2"), request(account), request(account)
    used = local_chain.send_from(KEY, 0)
    local_chain.mine()
    mine_until_final(local_chain, account)
    look(account)
    assert statuses(other, first, second) == ["pending", "confirmed", "pending"]
    assert (first.nonce, first.mined_attempt and first.mined_attempt.hash) == (0, used)
    assert (externals(account), account.next_nonce, account.holds) == ([], 1, {})


def test_a_row_in_flight_never_adopts_another_nonce(local_chain: LocalChain) -> None:
    account = lane(local_chain)
    # Requests the same as what used nonce 0, but has nonce 1.
    row = sent(account, 1)
    Lane.objects.filter(pk=account.pk).update(next_nonce=0)
    local_chain.send_from(KEY, 0)
    local_chain.mine()
    mine_until_final(local_chain, account)
    assert (statuses(row), row.nonce, row.attempts.count()) == (["submitted"], 1, 1)
    assert [each[0] for each in externals(account)] == [0]


def test_a_row_adopts_another_nonce_only_after_it_lost_its_own(local_chain: LocalChain) -> None:
    account = lane(local_chain)
    local_chain.send_from(KEY, 0, value=9)
    local_chain.send_from(KEY, 1)
    row = sent(account, 0)
    local_chain.mine()
    mine_until_final(local_chain, account)
    look(account)
    assert statuses(row) == ["confirmed"]
    assert (row.nonce, row.attempts.count()) == (1, 2)
    assert [each[0] for each in externals(account)] == [0]


def test_a_gap_row_gives_up_a_nonce_that_somebody_else_used(local_chain: LocalChain) -> None:
    account = lane(local_chain)
    gap = sent(account, 0, kind="gap", to=account.address, value_text="0")
    gap.attempts.update(purpose="gap")
    waiting = request(account)
    local_chain.send_from(KEY, 0)
    local_chain.mine()
    mine_until_final(local_chain, account)
    look(account)
    assert statuses(gap, waiting) == ["failed", "confirmed"]
    assert (gap.nonce, waiting.nonce) == (None, 0)


@pytest.mark.parametrize("is_own", [True, False])
def test_a_row_is_not_queued_again_before_the_user_of_its_nonce_is_found(
    local_chain: LocalChain, monkeypatch: pytest.MonkeyPatch, is_own: bool
) -> None:
    account = lane(local_chain)
    row = sent(account, 0)
    if is_own:
        broadcast(local_chain, row)
        monkeypatch.setattr("transactions.settlement.reading.read_receipt", lambda expected, answer: None)
    else:
        local_chain.send_from(KEY, 0, value=5)
        monkeypatch.setattr("transactions.settlement.searching._find", lambda *_: None)
    local_chain.mine()
    mine_until_final(local_chain, account)
    assert (statuses(row), account.final_nonce) == (["submitted"], 1)
    if not is_own:
        assert row.status_reason == (
            "Its nonce 0 was used in a final block, by none of its attempts; "
            "the transaction that used it was not found yet."
        )
        assert row.reason_code == "nonce_used"


def lost(chain: LocalChain) -> tuple[Lane, Transaction]:
    """Return a lane that lost the commits of a request, and the row of what it had sent."""
    account = lane(chain)
    with transaction.atomic():
        holds.doubt_commits(account, "Restored.")
    chain.send_from(KEY, 0)
    chain.mine()
    mine_until_final(chain, account)
    return account, Transaction.objects.get(kind="external")


def test_a_repeated_request_waits_for_staff_however_long_they_take(local_chain: LocalChain) -> None:
    account, external = lost(local_chain)
    assert external.mined_attempt is not None
    row, other = request(account), request(account, value_text="2")
    assert adoption.unclaimed_matches([row, other]) == {
        row.pk: "A transaction with this payload was found on the chain after the database may have lost commits: "
        f"{external.mined_attempt.hash}. Staff must decide whether it is this request, on its page in the admin "
        "or with manage.py resolve_claims."
    }
    days_ago = database_now() - timedelta(days=2)
    Transaction.objects.filter(pk=row.pk).update(created_at=days_ago)
    Transaction.objects.filter(pk=external.pk).update(unclaimed_until=days_ago + timedelta(seconds=1))
    row.refresh_from_db()
    later = request(account)
    assert list(adoption.find_claims([row, later])) == [row.pk]


def test_staff_let_a_request_go_or_link_it_to_what_was_executed(local_chain: LocalChain) -> None:
    account, external = lost(local_chain)
    free, row, attempt = request(account), request(account), external.mined_attempt
    assert adoption.release_claim(free) is True
    free.refresh_from_db()
    assert (adoption.unclaimed_matches([free]), free.status) == ({}, "pending")
    assert adoption.link(row, external) is True
    row.refresh_from_db()
    assert (row.status, row.nonce, row.mined_attempt, row.block_number) == ("confirmed", 0, attempt, 1)
    assert externals(account) == []
    assert adoption.unclaimed_matches([request(account)]) == {}
