"""Spending limits in the writes of lanes and of settlement: what a row counts in each status."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from chain.transactions import Draft, Prices
from relayer_service.database.clock import database_now
from spending.models import SpendingLimit, SpendingPolicy
from spending.rules import Payload
from tests.relayers import factories as relayer_factories
from tests.transactions import factories
from tests.transactions.factories import RECEIVER
from tests.transactions.limits import let_hours_pass, limit_relayer, policy, used
from tokens.models import AccessToken
from tokens.writes import issue
from transactions.changes import Changes, lock_rows
from transactions.lanes import leasing
from transactions.lanes.commits import NewAttempt, Result, commit
from transactions.lanes.prices.planning import Closing
from transactions.lanes.signing import Signed
from transactions.limits.budgets import recharge
from transactions.limits.holders import SpendingRefused
from transactions.limits.status_changes import settle
from transactions.limits.windows import OPEN_HOUR
from transactions.models import Attempt, Charge, Lane, Transaction
from transactions.records.states import Cause
from transactions.repair.limit_checks import limit_violations, settle_final
from transactions.requests import actions
from transactions.settlement.judging import NO_RECEIPT

pytestmark = [pytest.mark.django_db, pytest.mark.both_engines]

GAS_LIMIT, GAS_PRICE = 50_000, 10
GAS_COST = GAS_LIMIT * GAS_PRICE
# What the receipts of `mine` report.
GAS_USED = 22_000
REAL_COST = GAS_USED * GAS_PRICE
PURPOSE = Attempt.Purpose


@pytest.fixture
def lane() -> Lane:
    """A lane that this worker holds."""
    return claimed_lane()


def claimed_lane(**values: Any) -> Lane:
    claimed = leasing.claim(factories.lane(relayer_factories.relayer(**values)).pk)
    assert claimed is not None
    return claimed


def limit(lane: Lane, **rules: Any) -> SpendingPolicy:
    assert lane.relayer is not None
    return limit_relayer(lane.relayer, **rules)


def request(lane: Lane, value: int = 5, **changes: Any) -> Transaction:
    return factories.transaction(lane, value_text=str(value), **changes)


def attempt(row: Transaction | None, nonce: int, purpose: Attempt.Purpose, price: int = GAS_PRICE) -> NewAttempt:
    is_own = row is not None and purpose in {PURPOSE.SEND, PURPOSE.BUMP}
    value, data = (row.value, bytes(row.data)) if row is not None and is_own else (0, b"")
    draft = Draft(11155111, nonce, RECEIVER, value, data, GAS_LIMIT, Prices(gas_price=price))
    raw = f"{nonce}-{purpose}-{price}-{value}".encode()
    return NewAttempt(row, purpose, Signed(draft, raw, f"0x{raw.hex():>064}"), value + GAS_LIMIT * price)


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


def move(row: Transaction, cause: Cause, **columns: Any) -> None:
    row.refresh_from_db()
    with transaction.atomic():
        changes = Changes()
        changes.move(lock_rows([row])[row.pk], cause, **columns)
        changes.save()
    row.refresh_from_db()


def mine(row: Transaction, **columns: Any) -> None:
    receipt = {"gas_used": GAS_USED, "effective_gas_price_text": str(GAS_PRICE), "succeeded": True}
    move(row, Cause.MINED, **({"mined_attempt": row.attempts.last()} | receipt | columns))


def test_gas_counts_at_its_ceiling_from_the_nonce_and_at_its_cost_from_the_receipt(lane: Lane) -> None:
    chosen = limit(lane, max_gas_cost_per_day=str(3 * GAS_COST), max_value_per_day="100")
    row = request(lane)
    assert used(chosen, "gas") == 0
    send(lane, row)
    assert (used(chosen, "gas"), used(chosen)) == (GAS_COST, 5)
    mine(row)
    assert used(chosen, "gas") == REAL_COST
    move(row, Cause.REORGED, **NO_RECEIPT)
    assert used(chosen, "gas") == GAS_COST
    # Without its nonce, its value counts and no gas.
    move(row, Cause.NONCE_TAKEN, nonce=None)
    assert (used(chosen), used(chosen, "gas")) == (5, 0)
    Lane.objects.update(next_nonce=7)
    assert send(lane, row) == [7]
    assert (used(chosen), used(chosen, "gas")) == (5, GAS_COST)
    mine(row, l1_fee_text="11")
    move(row, Cause.SUCCEEDED)
    assert (used(chosen, "gas"), used(chosen)) == (REAL_COST + 11, 5)


def test_no_nonce_is_committed_over_a_limit_of_gas(lane: Lane) -> None:
    chosen = limit(lane, max_gas_cost_per_day=str(2 * GAS_COST))
    rows = [request(lane) for _ in range(4)]
    assert send(lane, *rows[:3]) == [0, 1, None]
    assert used(chosen, "gas") == 2 * GAS_COST
    mine(rows[0])
    mine(rows[1])
    assert send(lane, rows[2]) == [2]
    # Nor at a price of zero: its nonce would need a no-op, which is never refused, and each one would burn more.
    limit(lane, max_gas_cost_per_day="1")
    commit(lane, Result([attempt(rows[3], 3, PURPOSE.SEND, 0)]))
    assert nonces(rows[3]) == [None]


@pytest.mark.parametrize("purpose", [PURPOSE.CANCEL, PURPOSE.REPLACE])
def test_the_word_of_one_node_does_not_release_what_was_replaced(lane: Lane, purpose: Attempt.Purpose) -> None:
    chosen = limit(lane, max_value_per_day="10")
    rows, is_canceled = [request(lane), request(lane)], purpose == PURPOSE.CANCEL
    for row in rows:
        send(lane, row)
        if not is_canceled:
            Transaction.objects.filter(pk=row.pk).update(value_text="2", payload_version=2)
            reserve(row)
        add(lane, row, purpose, 20)
        mine(row)
        move(row, Cause.NOOP_MINED if is_canceled else Cause.SUCCEEDED)
    assert used(chosen) == 10
    let_hours_pass(2)
    corroborate(rows[0])
    assert used(chosen) == (5 if is_canceled else 7)
    # As with a single node: it gets old.
    let_hours_pass(23)
    assert used(chosen) == 0


def test_rules_that_were_tightened_before_the_commit_stop_it(lane: Lane) -> None:
    rows = [request(lane, value) for value in (4, 5)]
    limit(lane, max_value="4")
    assert send(lane, request(lane, 0, to=lane.address, data=b"data")) == [None]
    assert send(lane, *rows) == [0, None]
    # Nor is a price raised above the maximum of automatic ones.
    Transaction.objects.filter(pk=rows[0].pk).update(pricing="legacy", gas_price_text=str(10**13))
    assert add(lane, rows[0], PURPOSE.BUMP, 10**13) == 1
    assert add(lane, rows[0], PURPOSE.CANCEL, 10**13) == 2


def test_requests_are_sent_under_the_rules_of_their_token_though_it_is_deleted(
    lane: Lane, admin_client: Client, admin_user: User
) -> None:
    chosen = policy(max_value_per_day="8")
    token, _ = issue(name="limited", user=admin_user, scopes=["send"], spending=chosen)
    rows = [request(lane, token_spending=chosen), request(lane, token_spending=chosen), request(lane)]
    admin_client.post(f"/admin/tokens/accesstoken/{token.pk}/delete/", {"post": "yes"})
    assert not AccessToken.objects.exists()
    # The nonces after the one that is stopped would leave a gap.
    assert send(lane, *rows) == [0, None, None]
    assert used(chosen) == 5
    gone = policy()
    row = request(lane, token_spending=gone)
    SpendingPolicy.objects.filter(pk=gone.pk).delete()
    assert send(lane, row) == [None]


TOKEN = "0x5FbDB2315678afecb367f032d93F642f64180aa3"  # a contract
TOKEN_DATA = bytes.fromhex(f"a9059cbb{int(RECEIVER, 16):064x}{5:064x}")


@pytest.mark.parametrize(
    ("rules", "name", "columns"),
    [
        ({"max_value_per_day": "8"}, "value", {}),
        (
            {"tokens": [{"contract": TOKEN, "max_amount_per_day": "8"}]},
            f"token:{TOKEN}",
            {"value": 0, "to": TOKEN, "data": TOKEN_DATA},
        ),
        ({"max_gas_cost_per_day": str(GAS_COST)}, "gas", {}),
    ],
    ids=["value", "token", "gas"],
)
def test_what_was_in_flight_counts_for_a_day_after_it_was_mined(
    lane: Lane, rules: dict[str, Any], name: str, columns: dict[str, Any]
) -> None:
    """Otherwise twice the limit could leave within two hours."""
    chosen = limit(lane, **rules)
    first, second = request(lane, **columns), request(lane, **columns)
    send(lane, first)
    let_hours_pass(30)
    assert send(lane, second) == [None]
    mine(first)
    let_hours_pass(2)
    move(first, Cause.SUCCEEDED)
    assert send(lane, second) == [None]
    let_hours_pass(21)
    assert (used(chosen, name) > 0, send(lane, second)) == (True, [None])
    let_hours_pass(2)
    assert (used(chosen, name), send(lane, second)) == (0, [1])


def test_after_a_reorg_it_counts_until_it_is_mined_again(lane: Lane) -> None:
    chosen = limit(lane, max_value_per_day="8")
    row = request(lane)
    send(lane, row)
    mine(row)
    let_hours_pass(20)
    move(row, Cause.REORGED, **NO_RECEIPT)
    let_hours_pass(30)
    assert used(chosen) == 5
    mine(row)
    let_hours_pass(23)
    # Until it is final, another reorg may remove it.
    assert used(chosen) == 5
    let_hours_pass(2)
    assert used(chosen) == 5
    move(row, Cause.SUCCEEDED)
    assert used(chosen) == 0


def reserve(row: Transaction) -> None:
    row.refresh_from_db()
    with transaction.atomic():
        recharge(row, Payload(row.to, row.value, bytes(row.data)), database_now())


def test_a_bump_over_the_limit_is_not_committed_and_a_no_op_is(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = limit(lane, max_gas_cost_per_day=str(GAS_COST + GAS_LIMIT))
    row = request(lane)
    send(lane, row)
    assert add(lane, row, PURPOSE.BUMP, GAS_PRICE + 1) == 2
    assert add(lane, row, PURPOSE.BUMP, GAS_PRICE + 2) == 2
    assert used(chosen, "gas") == GAS_LIMIT * (GAS_PRICE + 1)
    assert add(lane, row, PURPOSE.EXPIRE, GAS_PRICE + 3) == 3
    assert used(chosen, "gas") == GAS_LIMIT * (GAS_PRICE + 3)
    monkeypatch.setattr("transactions.settlement.nonces.holds.noops_due", lambda lane: [1])
    commit(lane, Result([attempt(None, 1, PURPOSE.GAP)]))
    assert used(chosen, "gas") == GAS_LIMIT * (GAS_PRICE + 3) + GAS_COST


@pytest.mark.parametrize(
    ("cause", "purpose", "counts"),
    [
        (Cause.SUCCEEDED, PURPOSE.SEND, True),
        (Cause.REVERTED, PURPOSE.SEND, True),
        (Cause.NOOP_MINED, PURPOSE.EXPIRE, False),
    ],
)
def test_what_was_not_executed_is_released(lane: Lane, cause: Cause, purpose: Attempt.Purpose, counts: bool) -> None:
    chosen = limit(lane, max_value_per_day="10", max_gas_cost_per_day=str(10 * GAS_COST))
    row = request(lane)
    send(lane, row)
    if purpose != PURPOSE.SEND:
        add(lane, row, purpose, GAS_PRICE)
    mine(row)
    # A reorg may bring the other attempt.
    assert used(chosen) == 5
    move(row, cause, succeeded=cause != Cause.REVERTED, corroborated_at=database_now())
    assert (used(chosen), used(chosen, "gas")) == (5 if counts else 0, REAL_COST)


def corroborate(row: Transaction) -> None:
    row.refresh_from_db()
    with transaction.atomic():
        row.corroborated_at = database_now()
        settle([row], row.corroborated_at)


@pytest.mark.parametrize(
    ("network", "receipt", "cost"),
    [
        ("sepolia", {"gas_used": 0, "effective_gas_price_text": "0"}, 21_000 * GAS_PRICE),
        ("sepolia", {"gas_used": 0}, 21_000 * GAS_PRICE),
        ("sepolia", {"effective_gas_price_text": "0", "l1_fee_text": "3"}, REAL_COST + 3),
        ("sepolia", {"gas_used": 10**9}, GAS_COST),
        ("sepolia", {"effective_gas_price_text": str(10**9)}, GAS_COST),
        ("sepolia", {"l1_fee_text": str(10**18)}, GAS_COST),
        # Without a price, or where none is certain, the ceiling stays.
        ("sepolia", {"effective_gas_price_text": ""}, GAS_COST),
        ("arbitrum-one", {"gas_used": 0, "effective_gas_price_text": "0"}, GAS_COST),
    ],
)
def test_a_receipt_reports_no_less_than_was_signed_and_no_more(
    network: str, receipt: dict[str, Any], cost: int
) -> None:
    lane = claimed_lane(network=network)
    chosen = limit(lane, max_gas_cost_per_day=str(GAS_COST))
    row = request(lane)
    send(lane, row)
    mine(row, **receipt)
    assert used(chosen, "gas") == cost
    move(row, Cause.SUCCEEDED)
    assert used(chosen, "gas") == cost


def test_what_was_found_on_the_chain_may_cost_more_than_was_reserved(lane: Lane) -> None:
    """An attempt whose commit was lost, at a higher price."""
    chosen = limit(lane, max_gas_cost_per_day=str(GAS_COST))
    row = request(lane)
    send(lane, row)
    price = {"gas_limit": GAS_LIMIT, "gas_price_text": "30"}
    adopted = factories.attempt(row, purpose=PURPOSE.EXTERNAL, **price)
    mine(row, mined_attempt=adopted, gas_used=40_000, effective_gas_price_text="30")
    assert used(chosen, "gas") == 1_200_000


def test_rows_that_end_without_a_nonce_are_released(lane: Lane) -> None:
    chosen = limit(lane, max_value_per_day="10")
    rows = [request(lane), request(lane)]
    for row in rows:
        reserve(row)
        row.refresh_from_db()
    # However long they wait: otherwise what was accepted on several days could be sent within one hour.
    let_hours_pass(30)
    assert used(chosen) == 10
    with pytest.raises(SpendingRefused):
        reserve(request(lane))
    Transaction.objects.filter(pk=rows[0].pk).update(valid_until=factories.SIGNED_AT)
    commit(lane, Result(closings=[Closing(rows[0], Cause.EXPIRED, "late"), Closing(rows[1], Cause.REFUSED, "never")]))
    assert used(chosen) == 0


@pytest.mark.parametrize("has_nonce", [False, True])
def test_a_replacement_reserves_the_maximum_until_one_is_final(lane: Lane, has_nonce: bool) -> None:
    chosen = limit(lane, max_value_per_day="10", max_value="9")
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
        move(row, Cause.SUCCEEDED, corroborated_at=database_now())
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
    actions.replace(row.pk, {"to": RECEIVER, "value": 70}, by="another token", token_spending=None)
    # Only what is signed can still be mined.
    assert used(former) == (5 if has_nonce else 0)
    if has_nonce:
        add(lane, row, PURPOSE.CANCEL, 20)
        mine(row)
    move(row, Cause.NOOP_MINED if has_nonce else Cause.CANCELED, corroborated_at=database_now())
    assert used(former) == 0


def test_without_rules_commits_read_nothing_of_limits(lane: Lane) -> None:
    with CaptureQueriesContext(connection) as queries:
        row = request(lane)
        send(lane, row)
        mine(row)
        move(row, Cause.SUCCEEDED)
        statements = [query["sql"] for query in queries.captured_queries]
    assert not [sql for sql in statements if "transactions_charge" in sql or 'FROM "spending_' in sql]


@pytest.mark.parametrize("of_former_token", [False, True])
def test_a_counter_that_differs_from_its_charges_is_a_violation(lane: Lane, of_former_token: bool) -> None:
    chosen = policy(max_value_per_day="10") if of_former_token else limit(lane, max_value_per_day="10")
    row = request(lane, token_spending=chosen if of_former_token else None)
    send(lane, row)
    if of_former_token:
        actions.replace(row.pk, {"to": RECEIVER, "value": 70}, by="another token", token_spending=None)
    assert limit_violations([lane]) == []
    Charge.objects.update(amount_text="4")
    hour = Charge.objects.get().hour
    text = f"the limit value of {chosen.pk} counts 5 in hour {hour}, and its charges are 4"
    assert limit_violations([lane]) == [text]
    if of_former_token:
        # What another token requests exceeds no limit of the former one.
        Charge.objects.update(amount_text="5")
        mine(row)
        move(row, Cause.SUCCEEDED)
        assert used(chosen) == 5


def test_what_an_upgrade_left_open_is_dated(lane: Lane) -> None:
    """A process of the last release ended the transaction, and left its charge in the hour that it had."""
    chosen = limit(lane, max_value_per_day="10")
    row = request(lane)
    send(lane, row, request(lane, 2))
    mine(row)
    move(row, Cause.SUCCEEDED)
    Charge.objects.update(hour=OPEN_HOUR)
    SpendingLimit.objects.update(hours={str(OPEN_HOUR): "7"})
    text = f"transaction {row} is final, and open on the limit value of {chosen.pk}"
    assert limit_violations([lane]) == [text]
    settle_final()
    assert used(chosen) == 7
    let_hours_pass(25)
    assert used(chosen) == 2
