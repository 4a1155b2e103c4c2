"""Holds: first contact, use of the account by other programs, lost commits, and what they allow."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from pytest_django import DjangoCaptureOnCommitCallbacks

from notifications.models import Delivery
from relayer_service.audit.models import AuditEntry
from relayer_service.background.tasks import queue
from relayer_service.database.clock import database_now, timestamp
from relayer_service.storage.selections import Selection
from tests.relayers import factories
from tests.relayers.factories import KEY
from tests.transactions.hardhat import LocalChain
from tests.transactions.settled import broadcast, lane, look, request, sent, short_depths, statuses
from transactions.lanes.commits import Result, commit
from transactions.lanes.prices.planning import Closing
from transactions.models import Hold, Lane, Status, Transaction
from transactions.records.states import Cause
from transactions.repair.holding import release_lane, release_lanes
from transactions.settlement import watching
from transactions.settlement.nonces import holds
from transactions.settlement.nonces.database_identity import database_identity

__all__ = ["short_depths"]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("short_depths")]

NEW: dict[str, Any] = {"first_nonce": None, "next_nonce": None}


def test_first_contact_begins_at_the_count_of_the_account(local_chain: LocalChain) -> None:
    local_chain.send_from(KEY, 0)
    local_chain.mine()
    account = lane(local_chain, **NEW)
    look(account)
    assert (account.first_nonce, account.next_nonce, account.chain_nonce) == (1, 1, 1)
    assert account.holds == {}
    assert account.database_identity == database_identity()


@pytest.mark.parametrize("is_mined", [True, False])
def test_first_contact_waits_however_long_transactions_of_others_are_pending(
    local_chain: LocalChain, is_mined: bool
) -> None:
    local_chain.send_from(KEY, 0)
    account = lane(local_chain, **NEW)
    look(account)
    assert (account.next_nonce, list(account.holds)) == (None, ["external"])
    assert account.holds["external"]["details"] == (
        "1 of its transactions are pending, which this service did not send."
    )
    account.holds["external"]["since"] = timestamp(database_now() - timedelta(days=1))
    account.save()
    look(account)
    assert (account.next_nonce, list(account.holds)) == (None, ["external"])
    if is_mined:
        local_chain.mine()
    else:
        local_chain.drop()
    look(account)
    nonce = int(is_mined)
    assert (account.first_nonce, account.next_nonce, account.holds) == (nonce, nonce, {})
    assert account.held_since is None


def test_nonces_that_others_use_or_have_pending_hold_the_lane(local_chain: LocalChain) -> None:
    account = lane(local_chain)
    local_chain.send_from(KEY, 0)
    look(account)
    assert account.holds["external"]["details"] == "Another program has a transaction with nonce 0 pending."
    local_chain.drop()
    look(account)
    assert (account.holds, account.next_nonce, holds.allows_nonces(account)) == ({}, 0, True)
    local_chain.send_from(KEY, 0)
    local_chain.mine()
    assert look(account).changed == {account.pk}
    assert account.holds["external"]["details"] == "Another program used 1 of its nonces, from 0 on."
    assert not holds.allows_nonces(account)


def release(account: Lane, reason: Hold) -> None:
    with transaction.atomic():
        assert release_lane(account, [reason], "Known.") is True


def test_staff_end_the_hold_for_nonces_of_others_until_there_are_more(local_chain: LocalChain) -> None:
    account = lane(local_chain)
    for nonce in range(2):
        local_chain.send_from(KEY, nonce)
        look(account)
    release(account, Hold.EXTERNAL)
    look(account)
    # What was found since the hold began, too. No nonce is skipped: whoever loses it is queued again.
    assert (account.holds, account.accepted_below, account.next_nonce) == ({}, 2, 0)
    local_chain.mine()
    look(account)
    assert (account.holds, account.chain_nonce, account.next_nonce) == ({}, 2, 0)
    local_chain.send_from(KEY, 2)
    look(account)
    assert (list(account.holds), account.holds["external"]["used_below"]) == (["external"], 3)


def test_first_contact_begins_at_once_after_what_staff_accept(local_chain: LocalChain) -> None:
    local_chain.send_from(KEY, 0)
    account = lane(local_chain, **NEW)
    look(account)
    release(account, Hold.EXTERNAL)
    look(account)
    assert (account.first_nonce, account.next_nonce, account.chain_nonce, account.holds) == (1, 1, 0, {})


def test_a_hold_and_its_end_are_announced_recorded_and_wake_the_lane(
    local_chain: LocalChain, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    account = lane(local_chain)
    relayer = account.relayer
    assert relayer is not None
    relayer.notification = factories.notification()
    relayer.save()
    with transaction.atomic():
        assert holds.hold(account, Hold.OPERATOR, "Maintenance.") is True
        assert holds.hold(account, Hold.OPERATOR, "Again.") is False
    with django_capture_on_commit_callbacks(execute=True):
        assert release_lanes(Selection.from_keys([account.pk]), [Hold.OPERATOR], "Over.") == 1
        assert release_lanes(Selection.from_keys([account.pk]), [Hold.OPERATOR], "Over.") == 0
    assert [task.args for task in queue.pending() if task.name == "wake_lane"] == [(account.pk,)]
    assert [delivery.event for delivery in Delivery.objects.order_by("pk")] == ["relayer.held", "relayer.released"]
    assert [entry.reason for entry in AuditEntry.objects.filter(object_type="lane").order_by("pk")] == [
        "Held: Held by staff. Maintenance.",
        "Released: Held by staff. Over.",
    ]


def test_ending_one_hold_leaves_the_others(local_chain: LocalChain) -> None:
    account = lane(local_chain)
    with transaction.atomic():
        holds.hold(account, Hold.OPERATOR)
        first = account.held_since
        holds.hold(account, Hold.EXTERNAL)
        assert holds.end_hold(account, Hold.EXTERNAL) is True
        assert holds.end_hold(account, Hold.EXTERNAL) is False
    account.refresh_from_db()
    assert (list(account.holds), account.held_since) == (["operator"], first)


def doubted(chain: LocalChain, **changes: Any) -> Lane:
    """Create a lane whose last nonce was committed on another server, with a window of one."""
    account = lane(chain, window=1, **changes)
    with transaction.atomic():
        holds.doubt_commits(account, "Restored.")
    return account


def noops(account: Lane) -> list[int]:
    with transaction.atomic():
        locked = Lane.objects.select_for_update(of=("self",)).select_related("relayer", "watch").get(pk=account.pk)
        return holds.noops_due(locked)


def close(account: Lane, chain: LocalChain, nonce: int) -> Transaction:
    """Close a nonce with a no-op, as the lane's turn does."""
    row = sent(account, nonce, kind="gap", to=account.address, value_text="0")
    row.attempts.update(purpose="gap")
    broadcast(chain, row)
    return row


def test_lost_commits_are_sealed_with_no_ops_until_all_are_final(local_chain: LocalChain) -> None:
    account = doubted(local_chain)
    look(account)
    assert (account.seal_below, noops(account)) == (None, [])
    # The node that was asked at block 0 may have been three blocks behind.
    local_chain.mine(6)
    look(account)
    look(account)
    assert (account.final_block, account.seal_below) == (3, None)
    local_chain.mine()
    look(account)
    look(account)
    assert (account.seal_below, noops(account)) == (2, [0])
    rows = [close(account, local_chain, 0)]
    assert noops(account) == []
    local_chain.mine()
    look(account)
    assert noops(account) == [1]
    rows.append(close(account, local_chain, 1))
    local_chain.mine()
    for _ in range(4):
        look(account)
    assert (statuses(*rows), list(account.holds)) == (["mined", "mined"], ["lost_commits"])
    local_chain.mine(4)
    for _ in range(3):
        look(account)
    assert (statuses(*rows), account.holds, account.seal_below) == (["confirmed", "confirmed"], {}, None)
    assert account.next_nonce == 2


def test_another_database_server_holds_the_lane(local_chain: LocalChain, monkeypatch: pytest.MonkeyPatch) -> None:
    account = lane(local_chain, database_identity="7000000000000000000-00000001")
    for module in (holds, watching):
        monkeypatch.setattr(module, "database_identity", lambda: "7000000000000000000-00000002")
    assert not holds.allows_nonces(account)
    look(account)
    assert list(account.holds) == ["lost_commits"]
    assert account.holds["lost_commits"]["identity"] == "7000000000000000000-00000002"
    with transaction.atomic():
        holds.end_hold(account, Hold.LOST_COMMITS)
    assert account.database_identity == "7000000000000000000-00000002"
    assert holds.allows_nonces(account)


def test_a_second_failover_while_sealing_starts_the_seal_over(
    local_chain: LocalChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise what was signed after the release, which the second failover took back, could be executed twice."""
    account = doubted(local_chain, database_identity="1-00000001")
    local_chain.mine(4)
    for timeline, seal in (("1-00000002", None), ("1-00000002", 2), ("1-00000003", None), ("1-00000003", 2)):
        for module in (holds, watching):
            monkeypatch.setattr(module, "database_identity", lambda timeline=timeline: timeline)
        look(account)
        assert (account.seal_below, account.holds["lost_commits"]["identity"]) == (seal, timeline)
        local_chain.mine(8)
        look(account)


def test_the_identity_of_a_server_has_its_timeline() -> None:
    identity = database_identity()
    if connection.vendor == "sqlite":
        assert identity == ""
    else:
        system, _, timeline = identity.partition("-")
        assert (system.isdigit(), int(timeline, 16)) == (True, 1)


def test_a_gap_is_closed_after_three_blocks(local_chain: LocalChain) -> None:
    account = lane(local_chain)
    row = sent(account, 1)
    broadcast(local_chain, row)
    look(account)
    assert (account.gap_block, noops(account)) == (0, [])
    local_chain.mine(2)
    look(account)
    assert noops(account) == []
    local_chain.mine()
    look(account)
    assert noops(account) == [0]
    close(account, local_chain, 0)
    assert noops(account) == []
    local_chain.mine()
    look(account)
    assert (statuses(row), account.gap_block, account.chain_nonce) == (["mined"], None, 2)


def test_a_gap_is_closed_while_lost_commits_are_sealed(local_chain: LocalChain) -> None:
    account = lane(local_chain)
    sent(account, 1)
    with transaction.atomic():
        holds.doubt_commits(account, "Restored.")
    look(account)
    local_chain.mine(3)
    look(account)
    assert (list(account.holds), account.seal_below, noops(account)) == (["lost_commits"], None, [0])
    with transaction.atomic():
        holds.end_hold(account, Hold.LOST_COMMITS)
        holds.hold(account, Hold.OPERATOR)
    assert noops(account) == []


def test_a_row_is_closed_before_first_contact_and_not_while_held(local_chain: LocalChain) -> None:
    account = lane(local_chain, **NEW)
    row = request(account, requested_action="expire")
    with transaction.atomic():
        holds.hold(account, Hold.OPERATOR)
    commit(account, Result(closings=[Closing(row, Cause.EXPIRED, "Too late.")]))
    assert statuses(row) == ["pending"]
    with transaction.atomic():
        holds.end_hold(account, Hold.OPERATOR)
    assert not holds.allows_nonces(account)
    commit(account, Result(closings=[Closing(row, Cause.EXPIRED, "Too late.")]))
    assert statuses(row) == ["expired"]


def test_a_lane_whose_chain_waits_for_its_own_row_has_no_gap(local_chain: LocalChain) -> None:
    account = lane(local_chain)
    sent(account, 0, Status.SENT)
    sent(account, 1)
    local_chain.mine(5)
    look(account)
    assert (account.gap_block, noops(account)) == (None, [])
    assert account.head_since is not None
