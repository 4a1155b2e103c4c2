"""Which hours count on a limit, and that no period of 24 hours exceeds it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest
from django.db import transaction
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from chain.networks import NetworkKind
from relayers.models import Relayer
from tests.relayers import factories as relayer_factories
from tests.transactions import factories
from tests.transactions.lane_values import attempt, legacy_attempt, network, row
from tests.transactions.limits import limit_relayer
from transactions.changes import Changes, lock_rows
from transactions.limits.budgets import Budget, recharge
from transactions.limits.holders import SpendingRefused, payload_of
from transactions.limits.status_changes import minimum_gas_and_price
from transactions.limits.windows import OPEN_HOUR, hour_of, used, with_amount
from transactions.models import Attempt, Lane, Status, Transaction
from transactions.records.states import Cause
from transactions.repair.limit_checks import limit_violations
from transactions.settlement.judging import NO_RECEIPT

pytestmark = pytest.mark.both_engines

NOON = hour_of(datetime(2026, 11, 16, 12, 0, tzinfo=UTC))


def test_an_hour_counts_until_all_of_it_is_older_than_a_day() -> None:
    """At the end of the hour NOON + 24, the last second of NOON is just over 24 hours ago: it must still count."""
    moments = [datetime(1970, 1, 2, 3, 0, tzinfo=UTC), datetime(1970, 1, 2, 3, 59, 59, 999999, tzinfo=UTC)]
    assert [hour_of(moment) for moment in moments] == [27, 27]
    assert [used({str(NOON - age): "7"}, NOON) for age in (0, 23, 24, 25)] == [7, 7, 7, 0]
    # What is open never gets old.
    assert used({str(OPEN_HOUR): "5", str(NOON): "1"}, NOON + 10**6) == 5


@pytest.mark.parametrize(
    ("hours", "hour", "amount", "expected"),
    [
        ({NOON: 2**256 - 1}, NOON, 2**256 - 1, {NOON: 2**257 - 2}),
        # Hours that do not count any more are dropped, as those without an amount are.
        ({NOON - 25: 1, NOON - 24: 2, NOON - 1: 3}, NOON, 4, {NOON - 24: 2, NOON - 1: 3, NOON: 4}),
        ({NOON: 5}, NOON, -5, {}),
        # What is released too late changes nothing.
        ({NOON: 1}, NOON - 25, -5, {NOON: 1}),
        ({OPEN_HOUR: 5}, NOON, 1, {OPEN_HOUR: 5, NOON: 1}),
    ],
)
def test_an_amount_is_added_to_its_hour(
    hours: dict[int, int], hour: int, amount: int, expected: dict[int, int]
) -> None:
    before, after = ({str(key): str(value) for key, value in each.items()} for each in (hours, expected))
    assert with_amount(before, NOON, hour, amount) == after


@pytest.mark.parametrize(
    ("kind", "mined", "columns", "expected"),
    [
        (NetworkKind.NONE, legacy_attempt(7), {}, (21_000, 7)),
        (NetworkKind.NONE, attempt(20, 3), {}, (21_000, 3)),
        (NetworkKind.OP_STACK, attempt(20, 3), {}, (21_000, 3)),
        # EIP-7623, and the code of a contract.
        (NetworkKind.NONE, attempt(20, 3), {"data": b"\1" * 100}, (25_000, 3)),
        (NetworkKind.NONE, attempt(20, 3), {"data": b"\1", "to": ""}, (53_018, 3)),
        # Nothing is certain of what the row has no longer or not yet.
        (NetworkKind.NONE, attempt(20, 3, purpose=Attempt.Purpose.CANCEL), {"data": b"\1" * 100}, (21_000, 3)),
        (NetworkKind.NONE, attempt(20, 3), {"data": b"\1" * 100, "payload_version": 2}, (21_000, 3)),
        # Only the base fee is paid, and only nodes report it.
        (NetworkKind.ARBITRUM, legacy_attempt(7), {}, (21_000, 0)),
        (NetworkKind.ZKSYNC, attempt(20, 3), {}, (0, 0)),
    ],
)
def test_the_payload_and_the_signed_price_have_a_minimum(
    kind: NetworkKind, mined: Attempt, columns: dict[str, Any], expected: tuple[int, int]
) -> None:
    assert minimum_gas_and_price(row(**columns), mined, network(kind=kind)) == expected


LIMIT = 10
DAY = timedelta(days=1)


class Spender:
    """A relayer with a limit of value, whose transactions are moved by hand, at a time that is set."""

    def __init__(self) -> None:
        self.relayer: Relayer = relayer_factories.relayer()
        limit_relayer(self.relayer, max_value_per_day=str(LIMIT))
        self.lane: Lane = factories.lane(self.relayer)
        self.now = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
        self.nonces = 0

    def accept(self, amount: int) -> None:
        with suppress(SpendingRefused), transaction.atomic():
            created = factories.transaction(self.lane, value_text=str(amount))
            recharge(created, payload_of(created), self.now)

    def send(self) -> None:
        if found := self._first(Status.PENDING):
            budget = Budget(self.relayer, [found], self.now, lock=True)
            if not budget.shortage(found, 0):
                budget.spend(found, 0)
                budget.save()
                self.nonces += 1
                signed = factories.attempt(found, nonce=self.nonces)
                self._move(found, Cause.COMMITTED, nonce=self.nonces, last_attempt=signed)

    def mine(self) -> None:
        if found := self._first(Status.SENT, Status.SUBMITTED):
            self._move(found, Cause.MINED, mined_attempt=found.last_attempt, succeeded=True)

    def reorg(self) -> None:
        if (found := self._first(Status.MINED)) and found.mined_at and found.mined_at > self.now - DAY:
            self._move(found, Cause.REORGED, **NO_RECEIPT)

    def requeue(self) -> None:
        if found := self._first(Status.SENT, Status.SUBMITTED):
            self._move(found, Cause.NONCE_TAKEN, nonce=None, last_attempt=None)

    def confirm(self) -> None:
        if found := self._first(Status.MINED):
            self._move(found, Cause.SUCCEEDED)

    def cancel(self) -> None:
        if found := self._first(Status.PENDING):
            self._move(found, Cause.CANCELED)

    def spent(self) -> int:
        """Return what was mined within the last 24 hours, with all that may be mined at any moment."""
        rows = Transaction.objects.exclude(status=Status.CANCELED)
        return sum(each.value for each in rows if each.mined_at is None or each.mined_at > self.now - DAY)

    def _first(self, *statuses: Status) -> Transaction | None:
        return Transaction.objects.filter(status__in=statuses).order_by("sequence").first()

    def _move(self, found: Transaction, cause: Cause, **columns: Any) -> None:
        changes = Changes()
        changes.move(lock_rows([found])[found.pk], cause, **columns)
        changes.save()
        found.refresh_from_db()


@contextmanager
def spender() -> Iterator[Spender]:
    with transaction.atomic():
        found = Spender()
        with (
            patch("transactions.changes.database_now", lambda: found.now),
            patch("transactions.repair.limit_checks.database_now", lambda: found.now),
        ):
            yield found
        transaction.set_rollback(True)


STEPS = st.sampled_from(["accept", "accept", "send", "send", "mine", "mine", "reorg", "requeue", "confirm", "cancel"])


@pytest.mark.django_db
@hypothesis_settings(max_examples=50)
@given(steps=st.lists(st.tuples(STEPS, st.integers(1, LIMIT), st.integers(0, 16 * 60)), min_size=5, max_size=30))
def test_no_period_of_24_hours_exceeds_a_limit(steps: list[tuple[str, int, int]]) -> None:
    with spender() as found:
        for name, amount, minutes in steps:
            found.now += timedelta(minutes=minutes)
            found.accept(amount) if name == "accept" else getattr(found, name)()
            assert found.spent() <= LIMIT
        assert limit_violations([found.lane]) == []
