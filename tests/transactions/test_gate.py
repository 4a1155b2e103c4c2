"""The gate: which signed bytes may leave, and when."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries

from chain.networks import Network
from tests.relayers import factories as relayer_factories
from tests.transactions import factories
from tests.transactions.lane_values import NOW, attempt, network
from transactions.lanes import gate
from transactions.models import FINAL, IN_FLIGHT, NOOP_PURPOSES, NOOPS, Attempt, Hold, Lane, Status, Transaction
from transactions.records.routing import Route
from transactions.requests import actions

Purpose, Kind, Action = Attempt.Purpose, Transaction.Kind, Transaction.Action
NONCE, EPOCH = 7, 2
CANDIDATE, OTHER = 10, 11


def may_leave(row: dict[str, Any], signed: dict[str, Any], lane: dict[str, Any]) -> bool:
    """Return whether an attempt may leave: that of a request in flight, unless something is changed."""
    values = {"status": "submitted", "nonce": NONCE, "epoch": EPOCH, "valid_until": NOW + timedelta(seconds=1)}
    bytes_of = {"pk": CANDIDATE, "purpose": "send", "epoch": EPOCH, "nonce": NONCE, "raw": b"\x02"}
    return gate.may_leave(
        Transaction(**{**values, "last_attempt_id": CANDIDATE, **row}),
        Attempt(**{**bytes_of, **signed}),
        Lane(**{"epoch": EPOCH, "chain_nonce": NONCE, **lane}),
        NOW,
    )


FINISHED: dict[str, Any] = {"status": "confirmed", "mined_attempt_id": CANDIDATE, "valid_until": NOW}


@pytest.mark.parametrize(
    ("row", "signed", "lane", "expected"),
    [
        ({}, {}, {}, True),
        ({"status": "sent"}, {}, {}, True),
        # A payload leaves no more once it has expired, or once its end or another payload is recorded.
        ({"valid_until": NOW}, {}, {}, False),
        ({"requested_action": "cancel"}, {}, {}, False),
        ({"requested_action": "expire"}, {}, {}, False),
        ({"requested_action": "close"}, {}, {}, False),
        ({"requested_action": "replace", "payload_version": 2}, {}, {}, False),
        ({"payload_version": 2}, {"purpose": "bump"}, {}, False),
        ({"payload_version": 2}, {"purpose": "replace", "payload_version": 2}, {}, True),
        ({"requested_action": "speed_up"}, {}, {}, True),
        # A no-op always does.
        ({"requested_action": "cancel", "valid_until": NOW}, {"purpose": "cancel"}, {}, True),
        ({"requested_action": "cancel", "payload_version": 2}, {"purpose": "expire"}, {}, True),
        ({"kind": "gap", "valid_until": NOW}, {"purpose": "gap"}, {}, True),
        # Only the newest attempt, at the nonce of its row, in this epoch, with bytes.
        ({"last_attempt_id": OTHER}, {}, {}, False),
        ({"last_attempt_id": OTHER}, {"purpose": "cancel"}, {}, False),
        ({"nonce": None, "status": "pending"}, {}, {}, False),
        ({"nonce": NONCE + 1}, {}, {}, False),
        ({}, {}, {"epoch": EPOCH + 1}, False),
        ({}, {"raw": b"", "purpose": "external"}, {}, False),
        ({}, {}, {"holds": {"chain": {}}}, False),
        ({}, {}, {"holds": {"operator": {}, "lost_commits": {}}}, True),
        ({"status": "mined", "mined_attempt_id": CANDIDATE}, {}, {}, False),
        # After a deep reorg, what was mined, though it has expired: the nonces above wait for it.
        (FINISHED, {}, {}, True),
        ({**FINISHED, "payload_version": 2}, {}, {}, True),
        (FINISHED, {}, {"chain_nonce": NONCE + 1}, False),
        (FINISHED, {}, {"chain_nonce": None}, False),
        ({**FINISHED, "mined_attempt_id": OTHER}, {}, {}, False),
        (FINISHED, {}, {"holds": {"chain": {}}}, False),
    ],
)
def test_what_may_leave(row: dict[str, Any], signed: dict[str, Any], lane: dict[str, Any], expected: bool) -> None:
    assert may_leave(row, signed, lane) is expected


@pytest.mark.django_db
def test_removed_rows_are_the_lowest_that_the_chain_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    lane = factories.lane(relayer_factories.relayer(), epoch=EPOCH, chain_nonce=NONCE, next_nonce=NONCE + 5)
    for nonce in (NONCE + 2, NONCE, NONCE + 1, NONCE - 1, NONCE + 4):
        row = factories.transaction(lane, nonce=nonce, identifier=f"tx-{nonce}", status=Status.CANCELED)
        row.mined_attempt = factories.attempt(row)
        row.save()
    # One is not final, as it is in a block.
    Transaction.objects.filter(pk=row.pk).update(status=Status.MINED, finished_at=None, unsuccessful=None)
    # Another program used its nonce.
    factories.transaction(lane, nonce=NONCE + 3, identifier="external", status=Status.FAILED)
    assert [row.nonce for row in gate.removed_rows(lane)] == [NONCE, NONCE + 1, NONCE + 2]
    monkeypatch.setattr(gate, "MAX_REMOVED", 2)
    assert [row.nonce for row in gate.removed_rows(lane)] == [NONCE, NONCE + 1]


states = st.fixed_dictionaries(
    {
        "status": st.sampled_from(Status.values),
        "kind": st.sampled_from(Kind.values),
        "requested_action": st.sampled_from(["", *Action.values]),
        "payload_version": st.integers(1, 2),
        "valid_until": st.sampled_from([NOW - timedelta(hours=2), NOW, NOW + timedelta(microseconds=1)]),
        "last_attempt_id": st.sampled_from([None, CANDIDATE, OTHER]),
        "mined_attempt_id": st.sampled_from([None, CANDIDATE, OTHER]),
        "nonce": st.sampled_from([None, NONCE, NONCE + 1]),
    }
)
signatures = st.fixed_dictionaries(
    {
        "purpose": st.sampled_from(Purpose.values),
        "payload_version": st.integers(1, 2),
        "raw": st.sampled_from([b"", b"\x02"]),
        "epoch": st.integers(EPOCH - 1, EPOCH),
    }
)
lanes: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "chain_nonce": st.sampled_from([None, NONCE, NONCE + 1]),
        "holds": st.dictionaries(st.sampled_from(Hold.values), st.just({}), max_size=2),
    }
)


@given(states, signatures, lanes)
def test_no_payload_leaves_that_nobody_wants_any_more(
    row: dict[str, Any], signed: dict[str, Any], lane: dict[str, Any]
) -> None:
    """The rule as the docs have it, one reason to withhold an attempt at a time."""
    reasons = {
        "no bytes": not signed["raw"],
        "another chain": signed["epoch"] != EPOCH or "chain" in lane["holds"],
        "not its nonce": row["nonce"] != NONCE,
        "neither in flight nor removed": row["status"] not in [*IN_FLIGHT, *FINAL],
    }
    if row["status"] in FINAL:
        reasons["not what was mined"] = row["mined_attempt_id"] != CANDIDATE
        reasons["still mined"] = lane["chain_nonce"] != NONCE
    else:
        reasons["not the newest"] = row["last_attempt_id"] != CANDIDATE
        if signed["purpose"] not in NOOPS:
            reasons["expired"] = row["kind"] == "request" and row["valid_until"] <= NOW
            reasons["ends"] = row["requested_action"] in NOOP_PURPOSES
            reasons["replaced"] = row["payload_version"] != signed["payload_version"]
    assert may_leave(row, signed, lane) is not any(reasons.values())


@pytest.fixture
def lane(db: None, settings: Any) -> Lane:
    settings.EXTENSIONS = ["transactions"]
    return factories.lane(relayer_factories.relayer(), next_nonce=3, chain_nonce=0)


def in_flight(lane: Lane, nonce: int) -> Attempt:
    row = factories.transaction(lane, status="submitted", nonce=nonce)
    return factories.attempt(row, raw=bytes([2, nonce]))


def test_what_is_recorded_after_the_turn_has_read_its_rows_counts(
    lane: Lane, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    attempts = [in_flight(lane, nonce) for nonce in range(3)]
    with django_assert_num_queries(1):
        assert gate.passing(attempts) == {b"\x02\x00", b"\x02\x01", b"\x02\x02"}
    actions.cancel(attempts[0].transaction_id, by="tests")
    Transaction.objects.filter(nonce=2).update(valid_until=NOW)
    assert gate.passing(attempts) == {b"\x02\x01"}
    Transaction.objects.update(last_attempt=None)
    Attempt.objects.all().delete()
    Transaction.objects.all().delete()
    assert gate.passing(attempts) == set()


@pytest.mark.parametrize(
    ("used", "seconds"),
    # Three blocks, but from 10 to 60 seconds; 5 without a mempool.
    [
        (network("mainnet"), 36),
        (network("optimism"), 10),
        (network("arbitrum-one"), 5),
        (network(block_seconds=600), 60),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_bytes_are_broadcast_again_after_some_blocks(used: Network, seconds: int) -> None:
    due, early = (attempt(seconds_ago=each) for each in (seconds, seconds - 0.001))
    assert gate.is_due(due, used, NOW)
    assert not gate.is_due(early, used, NOW)
    assert gate.is_due(attempt(last_broadcast_at=None), used, NOW)


@pytest.mark.parametrize(
    ("changes", "head", "expected"),
    [
        ({"outcome": "accepted", "broadcast_block": 80}, 99, False),
        ({"outcome": "already known", "broadcast_block": 80}, 100, True),
        # By time, as it is unknown whether they keep it, or since when.
        ({"outcome": "unknown", "broadcast_block": 80}, 81, True),
        ({"outcome": "accepted"}, 100, True),
        ({"outcome": "accepted", "broadcast_block": 80}, None, True),
    ],
)
def test_private_nodes_keep_what_they_accept_for_some_blocks(
    changes: dict[str, Any], head: int | None, expected: bool
) -> None:
    assert gate.is_due(attempt(seconds_ago=60, **changes), network(), NOW, Route.PRIVATE, head) is expected


def test_all_are_due_if_a_node_has_a_gap_and_none_that_may_not_leave() -> None:
    def row(nonce: int, **changes: Any) -> Transaction:
        signed = attempt(seconds_ago=1, pk=nonce, raw=b"\x02", nonce=nonce, epoch=EPOCH)
        signed.outcome = "nonce too high" if nonce == 2 else "accepted"
        values = {"status": "submitted", "nonce": nonce, "valid_until": NOW + timedelta(hours=1)}
        return Transaction(**{**values, "last_attempt": signed, **changes})

    rows = [row(0), row(1, requested_action="cancel"), row(2)]
    assert [each.nonce for each in gate.due(Lane(epoch=EPOCH), rows, network(), NOW)] == [0, 2]
    assert gate.due(Lane(epoch=EPOCH), rows[:2], network(), NOW) == []
