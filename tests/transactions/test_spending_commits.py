"""Spending limits in the writes of lanes and of settlement: what a row counts in each status."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from chain.transactions import Draft, Prices
from relayer_service.storage.clock import database_now
from relayers.models import Relayer
from spending.models import SpendingPolicy
from spending.rules import Payload
from tests.relayers import factories as relayer_factories
from tests.transactions import factories
from tests.transactions.factories import RECEIVER
from tests.transactions.limits import let_hours_pass, limit_relayer, policy, used
from tokens.models import AccessToken
from tokens.writes import issue
from transactions import actions
from transactions.changes import Changes, lock_rows
from transactions.invariants import CheckedLane, database_violations
from transactions.lanes import leasing
from transactions.lanes.commits import NewAttempt, Result, commit
from transactions.lanes.planning import Expire, Fail
from transactions.lanes.signing import Signed
from transactions.models import Attempt, Charge, Lane, Status, Transaction
from transactions.settlement.settling import NO_RECEIPT
from transactions.spending.budgets import recharge
from transactions.spending.checking import limit_violations
from transactions.spending.holders import SpendingRefused

pytestmark = pytest.mark.django_db

GAS_PRICE = 10
GAS_COST = 21_000 * GAS_PRICE
PURPOSE = Attempt.Purpose


@pytest.fixture
def relayer() -> Relayer:
    return relayer_factories.relayer()


@pytest.fixture
def lane(relayer: Relayer) -> Lane:
    """A lane that this worker holds."""
    claimed = leasing.claim(factories.lane(relayer).pk)
    assert claimed is not None
    return claimed


def request(lane: Lane, value: int = 5, **changes: Any) -> Transaction:
    return factories.transaction(lane, value_text=str(value), **changes)


def attempt(row: Transaction | None, nonce: int, purpose: Attempt.Purpose, price: int = GAS_PRICE) -> NewAttempt:
    value = row.value if row is not None and purpose in {PURPOSE.SEND, PURPOSE.BUMP} else 0
    draft = Draft(11155111, nonce, RECEIVER, value, b"", 21_000, Prices(gas_price=price))
    raw = f"{nonce}-{purpose}-{price}-{value}".encode()
    return NewAttempt(row, purpose, Signed(draft, raw, f"0x{raw.hex():>064}"), value + 21_000 * price)


def send(lane: Lane, *rows: Transaction) -> list[int | None]:
    """Commit nonces for rows, and return those that they have then."""
    lane.refresh_from_db()
    start = lane.next_nonce or 0
    commit(lane, Result([attempt(row, start + number, PURPOSE.SEND) for number, row in enumerate(rows)]))
    return nonces(*rows)


def nonces(*rows: Transaction) -> list[int | None]:
    for row in rows:
        row.refresh_from_db()
    return [row.nonce for row in rows]


def add(lane: Lane, row: Transaction, purpose: Attempt.Purpose, price: int) -> int:
    """Commit another attempt of a row in flight; return how many it has."""
    row.refresh_from_db()
    assert row.nonce is not None
    commit(lane, Result([attempt(row, row.nonce, purpose, price)]))
    row.refresh_from_db()
    return row.attempts.count()


def move(row: Transaction, status: Status, **columns: Any) -> None:
    row.refresh_from_db()
    with transaction.atomic():
        changes = Changes()
        changes.move(lock_rows([row])[row.pk], status, **columns)
        changes.save()
    row.refresh_from_db()


def mine(row: Transaction, **columns: Any) -> None:
    receipt = {"gas_used": 20_000, "effective_gas_price_text": "7", "succeeded": True}
    move(row, Status.MINED, **({"mined_attempt": row.attempts.last()} | receipt | columns))


def test_gas_counts_at_its_ceiling_from_the_nonce_and_at_its_cost_from_the_receipt(lane: Lane) -> None:
    assert lane.relayer is not None
    chosen = limit_relayer(lane.relayer, max_gas_cost_per_day=str(3 * GAS_COST), max_value_per_day="100")
    row = request(lane)
    assert used(chosen, "gas") == 0
    send(lane, row)
    assert (used(chosen, "gas"), used(chosen)) == (GAS_COST, 5)
    mine(row)
    assert used(chosen, "gas") == 140_000
    move(row, Status.SUBMITTED, **NO_RECEIPT)
    assert used(chosen, "gas") == GAS_COST
    mine(row, l1_fee_text="11")
    move(row, Status.CONFIRMED)
    assert (used(chosen, "gas"), used(chosen)) == (140_011, 5)


def test_a_receipt_without_a_price_leaves_the_ceiling(lane: Lane) -> None:
    assert lane.relayer is not None
    chosen = limit_relayer(lane.relayer, max_gas_cost_per_day=str(GAS_COST))
    row = request(lane)
    send(lane, row)
    mine(row, effective_gas_price_text="")
    assert used(chosen, "gas") == GAS_COST


def test_no_nonce_is_committed_over_a_limit_of_gas(lane: Lane) -> None:
    assert lane.relayer is not None
    chosen = limit_relayer(lane.relayer, max_gas_cost_per_day=str(2 * GAS_COST))
    rows = [request(lane) for _ in range(3)]
    assert send(lane, *rows) == [0, 1, None]
    assert used(chosen, "gas") == 2 * GAS_COST
    mine(rows[0])
    mine(rows[1], gas_used=1)
    assert send(lane, rows[2]) == [2]


def test_a_price_of_zero_does_not_pass_an_exceeded_limit_of_gas(lane: Lane) -> None:
    """Its nonce would need a no-op, which is never refused: each one would burn more."""
    assert lane.relayer is not None
    limit_relayer(lane.relayer, max_gas_cost_per_day=str(GAS_COST))
    rows = [request(lane), request(lane)]
    commit(lane, Result([attempt(rows[0], 0, PURPOSE.SEND, 0)]))
    assert add(lane, rows[0], PURPOSE.CANCEL, GAS_PRICE + 1) == 2
    commit(lane, Result([attempt(rows[1], 1, PURPOSE.SEND, 0)]))
    assert nonces(*rows) == [0, None]


def test_rules_that_were_tightened_before_the_commit_stop_it(lane: Lane) -> None:
    assert lane.relayer is not None
    limit_relayer(lane.relayer, max_value="5")
    rows = [request(lane, value) for value in (4, 5)]
    limit_relayer(lane.relayer, max_value="4")
    assert send(lane, *rows) == [0, None]


def test_data_to_the_own_account_gets_no_nonce(lane: Lane) -> None:
    assert lane.relayer is not None
    limit_relayer(lane.relayer, max_value="5")
    assert send(lane, request(lane, 0, to=lane.address, data=b"data")) == [None]


def test_rules_of_the_token_hold_at_the_commit(lane: Lane) -> None:
    chosen = policy(max_value_per_day="8")
    rows = [request(lane, token_spending=chosen), request(lane, token_spending=chosen), request(lane)]
    # The nonces after the one that is stopped would leave a gap.
    assert send(lane, *rows) == [0, None, None]
    assert used(chosen) == 5


def test_a_policy_that_is_gone_allows_nothing(lane: Lane) -> None:
    chosen = policy()
    row = request(lane, token_spending=chosen)
    SpendingPolicy.objects.all().delete()
    assert send(lane, row) == [None]


def test_requests_of_a_deleted_token_are_sent_under_its_rules(
    lane: Lane, admin_client: Client, admin_user: User
) -> None:
    chosen = policy(max_value_per_day="8")
    token, _ = issue(name="limited", user=admin_user, scopes=["send"], spending=chosen)
    rows = [request(lane, token_spending=chosen), request(lane, token_spending=chosen)]
    admin_client.post(f"/admin/tokens/accesstoken/{token.pk}/delete/", {"post": "yes"})
    assert not AccessToken.objects.exists()
    assert send(lane, *rows) == [0, None]


def test_what_waited_for_its_nonce_counts_from_the_nonce_on(lane: Lane) -> None:
    """Otherwise what was accepted on several days could be sent within one hour."""
    assert lane.relayer is not None
    chosen = limit_relayer(lane.relayer, max_value_per_day="8")
    first, second = request(lane), request(lane)
    for row in (first, second):
        reserve(row)
        let_hours_pass(30)
    assert used(chosen) == 0
    assert send(lane, first, second) == [0, None]
    assert used(chosen) == 5
    let_hours_pass(25)
    assert send(lane, second) == [1]


def reserve(row: Transaction) -> None:
    row.refresh_from_db()
    with transaction.atomic():
        recharge(row, Payload(row.to, row.value, bytes(row.data)), database_now())


def test_a_replacement_that_waited_counts_from_its_commit_on(lane: Lane) -> None:
    """As what waited for its nonce."""
    assert lane.relayer is not None
    chosen = limit_relayer(lane.relayer, max_value_per_day="8")
    row = request(lane, 1)
    send(lane, row)
    Transaction.objects.update(value_text="5")
    reserve(row)
    let_hours_pass(30)
    reserve(request(lane))
    assert add(lane, row, PURPOSE.REPLACE, 20) == 1
    let_hours_pass(25)
    assert add(lane, row, PURPOSE.REPLACE, 20) == 2
    assert used(chosen) == 5


def test_a_bump_over_the_limit_is_not_committed_and_a_no_op_is(lane: Lane) -> None:
    assert lane.relayer is not None
    chosen = limit_relayer(lane.relayer, max_gas_cost_per_day=str(GAS_COST + 21_000))
    row = request(lane)
    send(lane, row)
    assert add(lane, row, PURPOSE.BUMP, GAS_PRICE + 1) == 2
    assert add(lane, row, PURPOSE.BUMP, GAS_PRICE + 2) == 2
    assert used(chosen, "gas") == 21_000 * (GAS_PRICE + 1)
    assert add(lane, row, PURPOSE.EXPIRE, GAS_PRICE + 3) == 3
    assert used(chosen, "gas") == 21_000 * (GAS_PRICE + 3)


@pytest.mark.parametrize(
    ("status", "purpose", "counts"),
    [
        (Status.CONFIRMED, PURPOSE.SEND, True),
        # It was executed, and reverted.
        (Status.FAILED, PURPOSE.SEND, True),
        (Status.EXPIRED, PURPOSE.EXPIRE, False),
        (Status.FAILED, PURPOSE.CLOSE, False),
    ],
)
def test_what_was_not_executed_is_released(lane: Lane, status: Status, purpose: Attempt.Purpose, counts: bool) -> None:
    assert lane.relayer is not None
    chosen = limit_relayer(lane.relayer, max_value_per_day="10", max_gas_cost_per_day=str(10 * GAS_COST))
    row = request(lane)
    send(lane, row)
    if purpose != PURPOSE.SEND:
        add(lane, row, purpose, 20)
    mine(row)
    # A reorg may bring the other attempt.
    assert used(chosen) == 5
    move(row, status)
    assert (used(chosen), used(chosen, "gas")) == (5 if counts else 0, 140_000)


def test_rows_that_end_without_a_nonce_are_released(lane: Lane) -> None:
    assert lane.relayer is not None
    chosen = limit_relayer(lane.relayer, max_value_per_day="10")
    rows = [request(lane), request(lane)]
    for row in rows:
        reserve(row)
        row.refresh_from_db()
    assert used(chosen) == 10
    commit(lane, Result(closings=[Expire(rows[0], "late"), Fail(rows[1], "never")]))
    assert used(chosen) == 0


def test_a_row_that_loses_its_nonce_counts_its_value_and_no_gas(lane: Lane) -> None:
    assert lane.relayer is not None
    chosen = limit_relayer(lane.relayer, max_value_per_day="10", max_gas_cost_per_day=str(GAS_COST))
    row = request(lane)
    send(lane, row)
    move(row, Status.PENDING, nonce=None)
    assert (used(chosen), used(chosen, "gas")) == (5, 0)
    Lane.objects.update(next_nonce=7)
    assert send(lane, row) == [7]
    assert (used(chosen), used(chosen, "gas")) == (5, GAS_COST)


def test_a_no_op_for_an_unused_nonce_is_counted_and_exempt(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lane.relayer is not None
    chosen = limit_relayer(lane.relayer, max_gas_cost_per_day="1")
    monkeypatch.setattr("transactions.settlement.holds.noops_due", lambda lane: [0])
    commit(lane, Result([attempt(None, 0, PURPOSE.GAP)]))
    assert used(chosen, "gas") == GAS_COST


@pytest.mark.parametrize("has_nonce", [False, True])
def test_a_replacement_reserves_the_maximum_until_one_is_final(lane: Lane, has_nonce: bool) -> None:
    assert lane.relayer is not None
    chosen = limit_relayer(lane.relayer, max_value_per_day="10", max_value="9")
    row = request(lane, 5)
    reserve(row)
    if has_nonce:
        send(lane, row)
    for value, reserved in ((8, 8), (2, 8 if has_nonce else 2)):
        Transaction.objects.update(value_text=str(value))
        reserve(row)
        assert used(chosen) == reserved
    row.refresh_from_db()
    with pytest.raises(SpendingRefused), transaction.atomic():
        recharge(row, Payload(RECEIVER, 10, b""), database_now())
    request_of_others = request(lane, 3)
    if has_nonce:
        with pytest.raises(SpendingRefused), transaction.atomic():
            recharge(request_of_others, Payload(RECEIVER, 3, b""), database_now())
        mine(row)
        move(row, Status.CONFIRMED)
        assert used(chosen) == 2
    recharge(request_of_others, Payload(RECEIVER, 3, b""), database_now())
    assert used(chosen) == 5


@pytest.mark.parametrize("has_nonce", [False, True])
def test_a_request_that_another_token_replaced_is_released(lane: Lane, has_nonce: bool) -> None:
    former = policy(max_value_per_day="10")
    row = request(lane, token_spending=former)
    reserve(row)
    if has_nonce:
        send(lane, row)
    actions.replace(row.pk, {"to": RECEIVER, "value": 7}, by="another token", token_spending=None)
    # Only what is signed can still be mined.
    assert used(former) == (5 if has_nonce else 0)
    move(row, Status.CANCELED)
    assert used(former) == 0


def test_what_another_token_requests_exceeds_no_limit_of_the_former_one(lane: Lane) -> None:
    former = policy(max_value_per_day="10")
    row = request(lane, token_spending=former)
    reserve(row)
    send(lane, row)
    actions.replace(row.pk, {"to": RECEIVER, "value": 70}, by="another token", token_spending=None)
    mine(row)
    move(row, Status.CONFIRMED)
    assert used(former) == 5


def test_without_rules_commits_read_nothing_of_limits(lane: Lane) -> None:
    with CaptureQueriesContext(connection) as queries:
        row = request(lane)
        send(lane, row)
        mine(row)
        move(row, Status.CONFIRMED)
        statements = [query["sql"] for query in queries.captured_queries]
    assert not [sql for sql in statements if "transactions_charge" in sql or 'FROM "spending_' in sql]


def test_the_limits_of_a_former_token_are_checked(lane: Lane) -> None:
    former = policy(max_value_per_day="10")
    row = request(lane, token_spending=former)
    reserve(row)
    send(lane, row)
    actions.replace(row.pk, {"to": RECEIVER, "value": 7}, by="another token", token_spending=None)
    assert limit_violations(lane) == []
    Charge.objects.update(amount_text="4")
    hour = Charge.objects.get().hour
    text = f"the limit value of {former.pk} counts 5 in hour {hour}, and its charges are 4"
    assert limit_violations(lane) == [text]


def test_a_counter_that_differs_from_its_charges_is_a_violation(lane: Lane) -> None:
    assert lane.relayer is not None
    chosen = limit_relayer(lane.relayer, max_value_per_day="10")
    send(lane, request(lane))
    assert limit_violations(lane) == []
    Charge.objects.update(amount_text="4")
    hour = Charge.objects.get().hour
    text = f"the limit value of {chosen.pk} counts 5 in hour {hour}, and its charges are 4"
    assert database_violations(CheckedLane.read(Lane.objects.get()))[-1] == text
