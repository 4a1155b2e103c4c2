"""What can be requested of a transaction now, what it can cost, and broadcasting it again."""

from __future__ import annotations

from typing import Any

import pytest

from relayer_service.models import AuditEntry
from tests.relayers import factories as relayers
from tests.transactions import factories
from tests.transactions.hardhat import GWEI
from transactions.lanes.prices.pricing import bumped
from transactions.models import Attempt, Lane, Status, Transaction
from transactions.requests import actions, possible_actions

pytestmark = pytest.mark.django_db

HELD = {"operator": {"since": "2026-11-16T12:00:00.000000Z", "details": ""}}
EVERY = ("cancel", "replace", "speed_up", "resend")
CAP = 100 * GWEI


@pytest.fixture
def lane() -> Lane:
    return factories.lane(relayers.relayer(policies={"gas_price_cap": CAP}), next_nonce=8)


def in_flight(lane: Lane, **changes: Any) -> Transaction:
    row = factories.transaction(lane, **{"nonce": 7, "status": Status.SUBMITTED, "value_text": "5"} | changes)
    price = {"max_fee_text": str(20 * GWEI), "max_priority_fee_text": str(GWEI)}
    factories.attempt(row, raw=b"signed", **price, max_cost_text=str(21_000 * 20 * GWEI + 5))
    return row


def possible(row: Transaction) -> set[str]:
    """Return the actions that are not refused."""
    return {action for action in EVERY if not possible_actions.refusal(row, action)}


def test_which_actions_are_possible_depends_on_row_lane_and_relayer(lane: Lane) -> None:
    assert possible(factories.transaction(lane)) == {"cancel", "replace", "speed_up"}
    # A no-op without a request is only sped up and broadcast.
    assert possible(in_flight(lane, nonce=5, kind="gap")) == {"speed_up", "resend"}
    assert possible(in_flight(lane, nonce=6, kind="external")) == set()
    row = in_flight(lane)
    assert possible(row) == {*EVERY}
    for action, left in (("cancel", set()), ("expire", {"cancel"}), ("replace", {*EVERY})):
        row.requested_action = action
        assert possible(row) == left
    row.requested_action, row.lane.holds = "", HELD
    assert possible(row) == {"cancel", "speed_up", "resend"}
    assert row.relayer is not None
    row.lane.holds, row.relayer.paused = {}, True
    assert possible(row) == {"cancel", "resend"}
    row.status, row.relayer.paused = Status.MINED, False
    assert possible(row) == set()


def test_the_maximum_cost_is_that_of_the_ceiling(lane: Lane) -> None:
    assert possible_actions.maximum_cost(factories.transaction(lane), "cancel") == 0
    row = in_flight(lane)
    assert {action: possible_actions.maximum_cost(row, action) for action in EVERY} == {
        # A no-op may exceed the cap by two bumps.
        "cancel": 21_000 * bumped(bumped(CAP)),
        "replace": None,
        "speed_up": 21_000 * CAP + 5,
        "resend": 21_000 * 20 * GWEI + 5,
    }


def test_signed_bytes_are_broadcast_again_in_the_next_turn(lane: Lane) -> None:
    row = in_flight(lane)
    Attempt.objects.update(last_broadcast_at=factories.SIGNED_AT, first_broadcast_at=factories.SIGNED_AT)
    actions.resend(row.pk, by="ops")
    attempt = Attempt.objects.get()
    assert (attempt.last_broadcast_at, attempt.first_broadcast_at) == (None, factories.SIGNED_AT)
    assert [entry.reason for entry in AuditEntry.objects.for_row(row)] == ["Broadcast requested by ops."]
    with pytest.raises(actions.Refused, match="It is not signed yet"):
        actions.resend(factories.transaction(lane).pk, by="ops")
